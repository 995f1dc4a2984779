// A GPU's sensor operations beside the CPU's, for tests that compare them.
#pragma once

#include <memory>
#include <utility>

#include "gpu_support.h"
#include "sensor_runs.h"

namespace amdahl::test {

class SensorGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ops_ = make_cuda_sensor_ops(*device);
    cpu_device_ = std::move(make_cpu_devices(1).front());
    cpu_stream_ = cpu_device_->make_stream("sensor");
    cpu_ops_ = make_cpu_sensor_ops(*cpu_device_);
  }
  SensorBench gpu() { return {*device, *stream, *ops_}; }
  SensorBench cpu() { return {*cpu_device_, *cpu_stream_, *cpu_ops_}; }

  void voxelize_all(VoxelMode mode) {
    for_each_voxelize(mode, true, [&](const Cloud& cloud, const VoxelRun& run) {
      const VoxelResult result = run_voxelize(gpu(), cloud, run);
      expect_voxels(cloud, run, result);
      const VoxelResult wanted = run_voxelize(cpu(), cloud, run);
      EXPECT_EQ(result.counts, wanted.counts);
      EXPECT_EQ(result.scale, wanted.scale);
      const bool exact = mode != VoxelMode::mean || run.options.deterministic;
      EXPECT_TRUE(!exact || result.output == wanted.output) << "not the CPU's bits";
    });
  }

  std::unique_ptr<Device> cpu_device_;
  std::unique_ptr<SensorOps> ops_, cpu_ops_;
  std::unique_ptr<Stream> cpu_stream_;
};

}  // namespace amdahl::test

// Every sensor operation of the CPU against plain loops in float64, over the table of cases that the GPU is tested on
// too.
#include <gtest/gtest.h>

#include "sensor_runs.h"

namespace amdahl::testing {
namespace {

class SensorCpuTest : public ::testing::Test {
 protected:
  SensorCpuTest()
      : devices_(make_cpu_devices(1)),
        ops_(make_cpu_sensor_ops(*devices_[0])),
        stream_(devices_[0]->make_stream("sensor")) {}
  SensorBench bench() { return {*devices_[0], *stream_, *ops_}; }

  void voxelize_all(VoxelMode mode) {
    size_t count = 0;
    for_each_voxelize(mode, false, [&](const Cloud& cloud, const VoxelRun& run) {
      ++count;
      expect_voxels(cloud, run, run_voxelize(bench(), cloud, run));
    });
    EXPECT_GE(count, clouds().size() * 8);
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<SensorOps> ops_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(SensorCpuTest, Fuse) {
  size_t count = 0;
  for_each_fuse([&](const FuseCase& fuse_case, ElementType type, Extrapolation rule, size_t skip) {
    ++count;
    FuseRun run(bench(), fuse_case, type, rule, skip);
    run.enqueue();
    expect_fused(fuse_case, type, rule, run.output());
  });
  EXPECT_GE(count, fuse_cases().size() * 3);
}

TEST_F(SensorCpuTest, CheckTimes) {
  for (const TimesCase& times_case : times_cases()) {
    SCOPED_TRACE(times_case.name);
    const TimesFault fault = run_check_times(bench(), times_case);
    const TimesVerdict want = reference_check_times(times_case.times, times_case.length);
    EXPECT_EQ(fault.index, want.index);
    EXPECT_EQ(fault.non_finite, want.non_finite);
  }
}

TEST_F(SensorCpuTest, VoxelizeCount) { voxelize_all(VoxelMode::count); }
TEST_F(SensorCpuTest, VoxelizeOccupancy) { voxelize_all(VoxelMode::occupancy); }
TEST_F(SensorCpuTest, VoxelizeBitmask) { voxelize_all(VoxelMode::bitmask); }
TEST_F(SensorCpuTest, VoxelizeMean) { voxelize_all(VoxelMode::mean); }
TEST_F(SensorCpuTest, VoxelizeMax) { voxelize_all(VoxelMode::max); }
TEST_F(SensorCpuTest, OrderDoesNotMatter) { expect_order_does_not_matter(bench()); }
TEST_F(SensorCpuTest, Masks) { expect_masks_work(bench()); }

}  // namespace
}  // namespace amdahl::testing

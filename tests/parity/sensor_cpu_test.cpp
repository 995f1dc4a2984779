// Every sensor operation of the CPU against plain loops in float64, over the table of cases that the GPU is tested on
// too: as callers get them, and by the loops for every x86, which machines with AVX2 would leave untested.
#include <gtest/gtest.h>

#include "sensor/ops/cpu_kernels.h"
#include "sensor_runs.h"

namespace amdahl::test {
namespace {

/// The loops without AVX2, run at once: whoever set the memory has waited for it.
class BaselineOps final : public SensorOps {
 public:
  explicit BaselineOps(Device& device) : usual_(make_cpu_sensor_ops(device)) {}
  void fuse(Stream&, const FuseProblem& problem) override { kCpuFuseBaseline.fuse(problem); }
  void check_times(Stream& stream, const std::vector<TimesRows>& rows, TimesFault* faults) override {
    usual_->check_times(stream, rows, faults);
  }
  size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const override {
    return usual_->voxelize_scratch_bytes(problem);
  }
  void voxelize(Stream&, const VoxelizeProblem& problem) override { kCpuVoxelsBaseline.voxelize(problem); }
  void fixed_point_scale(Stream&, const VoxelizeProblem& problem, int64_t num_points_of_all, float* scale) override {
    *scale = fixed_point_scale_of(kCpuVoxelsBaseline.largest_feature(problem), num_points_of_all);
  }
  void finish(Stream&, const VoxelizeProblem& merged) override { kCpuVoxelsBaseline.finish(merged); }
  void add_byte_counts(Stream& stream, const ByteCounts& layout, void* buffer, int32_t* grid) override {
    usual_->add_byte_counts(stream, layout, buffer, grid);
  }
  void merge_masks(Stream& stream, uint32_t* mask, const uint32_t* other, int64_t num_words) override {
    usual_->merge_masks(stream, mask, other, num_words);
  }
  void expand_mask(Stream& stream, const uint32_t* mask, int32_t* grid, int64_t num_voxels) override {
    usual_->expand_mask(stream, mask, grid, num_voxels);
  }

 private:
  std::unique_ptr<SensorOps> usual_;
};

std::unique_ptr<SensorOps> make_baseline(Device& device) { return std::make_unique<BaselineOps>(device); }

struct Loops {
  const char* name;
  std::unique_ptr<SensorOps> (*make)(Device& device);
};

class SensorCpuTest : public ::testing::TestWithParam<Loops> {
 protected:
  SensorCpuTest()
      : devices_(make_cpu_devices(1)),
        ops_(GetParam().make(*devices_[0])),
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

INSTANTIATE_TEST_SUITE_P(Loops, SensorCpuTest,
                         ::testing::Values(Loops{"chosen", make_cpu_sensor_ops}, Loops{"baseline", make_baseline}),
                         [](const auto& loops) { return loops.param.name; });

TEST_P(SensorCpuTest, Fuse) {
  size_t count = 0;
  for_each_fuse([&](const FuseCase& fuse_case, DType type, Extrapolation rule, size_t skip) {
    ++count;
    FuseRun run(bench(), fuse_case, type, rule, skip);
    run.enqueue();
    expect_fused(fuse_case, type, rule, run.output());
  });
  EXPECT_GE(count, fuse_cases().size() * 3);
}

TEST_P(SensorCpuTest, CheckTimes) {
  expect_times_checked(bench(), times_cases());
  expect_times_checked(bench(), {});
}

TEST_P(SensorCpuTest, VoxelizeCount) { voxelize_all(VoxelMode::count); }
TEST_P(SensorCpuTest, VoxelizeOccupancy) { voxelize_all(VoxelMode::occupancy); }
TEST_P(SensorCpuTest, VoxelizeBitmask) { voxelize_all(VoxelMode::bitmask); }
TEST_P(SensorCpuTest, VoxelizeMean) { voxelize_all(VoxelMode::mean); }
TEST_P(SensorCpuTest, VoxelizeMax) { voxelize_all(VoxelMode::max); }
TEST_P(SensorCpuTest, OrderDoesNotMatter) { expect_order_does_not_matter(bench()); }
TEST_P(SensorCpuTest, Masks) { expect_masks_work(bench()); }

}  // namespace
}  // namespace amdahl::test

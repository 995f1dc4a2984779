// What the CPU keeps beside a grid of values: of the voxels that have points, not of all.
#include "sensor/ops/voxel_values.h"

#include <gtest/gtest.h>

#include <vector>

namespace amdahl {
namespace {

constexpr int64_t kVoxels = 128 * 128 * 128;

VoxelizeProblem mean_of(int64_t points, bool deterministic) {
  VoxelizeProblem problem;
  problem.grid.size = {128, 128, 128};
  problem.num_points = points, problem.num_features = 8;
  problem.options.mode = VoxelMode::mean, problem.options.deterministic = deterministic;
  return problem;
}

TEST(VoxelValues, FixedPointSumsAreOfTheVoxelsThatCanHavePoints) {
  EXPECT_EQ(value_scratch_bytes(mean_of(1000, true)), size_t{1000 * (8 + 1) * 8 + kVoxels * 4});
  EXPECT_EQ(value_scratch_bytes(mean_of(kVoxels, true)), size_t{kVoxels * (8 * 8 + 4)});
  EXPECT_EQ(value_scratch_bytes(mean_of(1000, false)), size_t{kVoxels * 4});
}

TEST(VoxelValues, PartsKeepTheirSumsInTheOutput) {
  VoxelizeProblem part = mean_of(1000, true);
  std::vector<int32_t> counts(1);
  part.partial = true, part.counts = counts.data();
  EXPECT_EQ(value_scratch_bytes(part), 0u);
  EXPECT_EQ(value_memory(part).slots, nullptr);
}

TEST(VoxelValues, NoPointsHaveMemoryToo) {
  VoxelizeProblem problem = mean_of(0, true);
  std::vector<int32_t> counts(1);
  problem.counts = counts.data();
  std::vector<int64_t> scratch(value_scratch_bytes(problem) / sizeof(int64_t));
  ASSERT_FALSE(scratch.empty());
  problem.scratch = scratch.data();
  EXPECT_EQ(value_memory(problem).slots, scratch.data());
}

TEST(VoxelValues, MaximaTellFirstPointsByBits) {
  VoxelizeProblem problem = mean_of(1000, false);
  problem.options.mode = VoxelMode::max;
  EXPECT_EQ(value_scratch_bytes(problem), size_t{kVoxels / 8});
  problem.options.zero_floor = true;
  EXPECT_EQ(value_scratch_bytes(problem), 0u);
}

}  // namespace
}  // namespace amdahl

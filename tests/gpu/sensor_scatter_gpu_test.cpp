// Clouds without values that a GPU scatters into buckets, and those just on either side of being sorted at all:
// whatever number of tiles they make, wherever they begin and end, the CPU's bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "sensor_gpu.h"

namespace amdahl::test {
namespace {

/// Interleaved tiles are runs of 16 points, the last of which are cut off; tiles are odd and even in number.
TEST_F(SensorGpuTest, InterleavedRuns) {
  std::mt19937_64 generator(31);
  std::uniform_real_distribution<float> unit(0, 1);
  Cloud all{"runs", {{-1, 2, -3}, 0.7f, {97, 120, 111}}, {}};  // of different axes
  for (int i = 0; i < 540'700; ++i)
    for (size_t axis = 0; axis < 3; ++axis) {
      const bool is_nan = i % 1013 == 5 && axis == static_cast<size_t>(i) % 3, is_outside = i % 211 == 7;
      const float extent = 0.7f * static_cast<float>(all.grid.size[axis]);
      const float at = all.grid.minimum[axis] + extent * unit(generator);
      all.points.push_back(is_nan ? std::numeric_limits<float>::quiet_NaN() : is_outside ? at - extent : at);
    }
  for (const size_t num_points : {200'001, 203'040, 271'003, 300'014, 412'345, 500'000, 540'672, 540'700}) {
    Cloud cloud = all;
    cloud.points.resize(num_points * 3);
    for (const VoxelMode mode : {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask})
      for (const OutOfBounds bounds : {OutOfBounds::drop, OutOfBounds::clamp})
        for (const int64_t skip : {0, 1, 4}) {
          VoxelRun run{{mode, skip == 4 ? VoxelLayout::zyx : VoxelLayout::xyz, bounds}};
          run.skip_elements = skip;
          SCOPED_TRACE(fmt::format("{} points, {}", num_points, run.name()));
          const VoxelResult result = run_voxelize(gpu(), cloud, run), wanted = run_voxelize(cpu(), cloud, run);
          EXPECT_TRUE(result.output == wanted.output) << "not the CPU's bits";
          EXPECT_EQ(result.stats.num_nan, wanted.stats.num_nan);
          EXPECT_EQ(result.stats.num_outside, wanted.stats.num_outside);
        }
  }
}

/// Masks of large grids go by atomics up to a point for every two words.
TEST_F(SensorGpuTest, MasksOfLargeGrids) {
  const VoxelGrid grid{{-3, 0, 5}, 0.25f, {301, 256, 320}};
  const int64_t most = num_mask_words(grid) / 2;
  for (const int64_t num_points : {most, most + 1}) {
    Cloud cloud{"large grid", grid, random_floats(3 * num_points, 41, -5, 70)};
    for (const OutOfBounds bounds : {OutOfBounds::drop, OutOfBounds::clamp}) {
      const VoxelRun run{{VoxelMode::bitmask, VoxelLayout::xyz, bounds}};
      SCOPED_TRACE(fmt::format("{} points, {}", num_points, run.name()));
      const VoxelResult result = run_voxelize(gpu(), cloud, run), wanted = run_voxelize(cpu(), cloud, run);
      EXPECT_TRUE(result.output == wanted.output) << "not the CPU's bits";
      EXPECT_EQ(result.stats.num_outside, wanted.stats.num_outside);
    }
  }
}

}  // namespace
}  // namespace amdahl::test

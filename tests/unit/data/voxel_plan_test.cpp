#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "sensor/ops/voxels/voxel_plan.h"

namespace amdahl {
namespace {

constexpr size_t kShared = 227 << 10;

VoxelPlan plan_of(std::array<int64_t, 3> size, int64_t points, VoxelMode mode, size_t most_shared = kShared) {
  VoxelizeProblem problem;
  problem.grid.size = size;
  problem.num_points = points;
  problem.options.mode = mode;
  return plan_voxels(problem, 132, most_shared);
}

/// Every voxel has a place of its own, inside its bin, and the place leads back to it.
TEST(VoxelPlan, PlacesAreOneToOne) {
  for (const auto& size : {std::array<int64_t, 3>{1, 1, 1}, {7, 5, 3}, {64, 64, 64}, {200, 200, 40}, {128, 128, 128}})
    for (const VoxelMode mode : {VoxelMode::count, VoxelMode::max}) {
      const VoxelPlan plan = plan_of(size, 200000, mode);
      std::vector<bool> taken(size_t{plan.num_bins()} * plan.bin_voxels());
      for (uint32_t voxel = 0; voxel < plan.slab_voxels; ++voxel) {
        const BinPlace place = place_in_bins(voxel, plan.bin_bits);
        ASSERT_LT(place.bin, plan.num_bins());
        ASSERT_LT(place.offset, plan.bin_voxels());
        ASSERT_EQ(voxel_at(place, plan.bin_bits), voxel);
        const size_t at = size_t{place.bin} * plan.bin_voxels() + place.offset;
        ASSERT_FALSE(taken[at]);
        taken[at] = true;
      }
    }
}

/// The tiles of large clouds: of counts as many for every multiprocessor, of values as few as there can be.
TEST(VoxelPlan, LargeCloudsHaveTilesForEveryMultiprocessor) {
  constexpr int kSms = 132;
  for (const int64_t points : {1'000'000, 1'700'000, 5'000'000, 20'000'003}) {
    SCOPED_TRACE(points);
    const VoxelPlan counts = plan_of({256, 256, 256}, points, VoxelMode::count);
    EXPECT_LE(counts.tile_points, kMaxTilePoints);
    EXPECT_GE(counts.num_tiles * counts.tile_points, points);
    const int64_t rounds = (counts.num_tiles + kSms - 1) / kSms;
    EXPECT_GT(counts.num_tiles, rounds * kSms - kSms / 10) << "the last round is not full";
    EXPECT_EQ(counts.tile_points % 64, 0) << "sorted tiles are not whole lines of memory";
    const VoxelPlan values = plan_of({256, 256, 256}, points, VoxelMode::max);
    EXPECT_EQ(values.tile_points, std::min<int64_t>(kMaxTilePoints, ((points + kSms - 1) / kSms + 63) / 64 * 64));
    EXPECT_GE(values.num_tiles * values.tile_points, points);
  }
}

/// Marks and packed counters take less memory than 32-bit counters, so that large grids have fewer and larger bins.
TEST(VoxelPlan, BinsOfMarksAndPackedCountersAreLarger) {
  const VoxelPlan marks = plan_of({256, 256, 256}, 5'000'000, VoxelMode::occupancy),
                  packed = plan_of({256, 256, 256}, 5'000'000, VoxelMode::count),
                  smaller = plan_of({256, 256, 256}, 5'000'000, VoxelMode::count, kPackedShared - 1);
  EXPECT_EQ(packed.path, VoxelPath::packed);
  EXPECT_EQ(marks.path, VoxelPath::cells);
  EXPECT_EQ(smaller.path, VoxelPath::cells) << "packed counters take more shared memory than there is";
  EXPECT_EQ(packed.num_bins(), marks.num_bins());
  EXPECT_EQ(marks.num_bins() * 4, smaller.num_bins());
  EXPECT_GE(packed.entries, packed.overfull + sizeof(OverfullBins));
  for (const VoxelMode mode : {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::max})
    EXPECT_LE(plan_of({1000, 1000, 1000}, 5'000'000, mode).bin_voxels(), 1u << kOffsetBits);
}

/// Counts are packed only in grids with more voxels per bin than 32-bit counters fit.
TEST(VoxelPlan, SmallGridsHaveWholeCounters) {
  EXPECT_EQ(plan_of({128, 128, 128}, 5'000'000, VoxelMode::count).path, VoxelPath::cells);
  EXPECT_EQ(plan_of({256, 256, 96}, 5'000'000, VoxelMode::count).path, VoxelPath::cells);  // 24,576 x 256 voxels
  EXPECT_EQ(plan_of({256, 256, 97}, 5'000'000, VoxelMode::count).path, VoxelPath::packed);
  EXPECT_EQ(plan_of({1000, 1000, 1000}, 5'000'000, VoxelMode::count).path, VoxelPath::packed);
}

/// Small clouds are scattered, in tiles that a block takes at once and that hold all points; the fewest go by atomics.
TEST(VoxelPlan, SmallCloudsAreScattered) {
  for (const int64_t points : {0, 1, 1000, 100000, 131072})
    EXPECT_EQ(plan_of({128, 128, 128}, points, VoxelMode::count).path, VoxelPath::atomics) << points;
  for (const int64_t points : {131073, 200000, 500000, 524288}) {
    const VoxelPlan plan = plan_of({128, 128, 128}, points, VoxelMode::count);
    EXPECT_EQ(plan.path, VoxelPath::scatter) << points;
    EXPECT_LE(plan.tile_points, kScatterTilePoints);
    EXPECT_LE(plan.num_tiles, kMaxScatterTiles);
    EXPECT_GE(plan.num_tiles * plan.tile_points, points);
    EXPECT_GT(plan.bucket_pitch, plan.num_tiles - 1);
    EXPECT_EQ(plan.bucket_pitch % 2, 1);
    const size_t buckets = size_t{plan.num_bins()} * static_cast<size_t>(plan.bucket_pitch);
    EXPECT_GE(plan.overflow, plan.buckets + buckets * PointBucket::kBytes);
    EXPECT_GE(plan.entries, plan.overflow + buckets * PointBucket::kOverflowBytes);
  }
  EXPECT_EQ(plan_of({128, 128, 128}, 600000, VoxelMode::count).path, VoxelPath::cells);
  EXPECT_EQ(plan_of({512, 512, 128}, 500000, VoxelMode::count).path, VoxelPath::packed);  // too large a grid
}

/// Every point of a cloud whose tiles are interleaved is in one place of one tile.
TEST(VoxelPlan, InterleavedPointsAreOneToOne) {
  for (const VoxelMode mode : {VoxelMode::occupancy, VoxelMode::max})
    for (const int64_t points : {1, 15, 1000, 100003, 500000, 524288, 1'000'001}) {
      SCOPED_TRACE(points);
      const VoxelPlan plan = plan_of({161, 161, 162}, points, mode);
      if (plan.path == VoxelPath::atomics) continue;
      ASSERT_TRUE(plan.interleaved);
      EXPECT_EQ(plan.tile_points % static_cast<int>(kRunPoints), 0);
      const auto num_tiles = static_cast<uint32_t>(plan.num_tiles);
      std::vector<int> times(static_cast<size_t>(points));
      for (uint32_t tile = 0; tile < num_tiles; ++tile)
        for (uint32_t at = 0; at < static_cast<uint32_t>(plan.tile_points); ++at)
          if (const size_t point = interleaved_point(tile, num_tiles, at); point < times.size()) ++times[point];
      EXPECT_EQ(std::count(times.begin(), times.end(), 1), points);
    }
}

/// Values are gathered where bins have room for their points.
TEST(VoxelPlan, FewPointsAreGathered) {
  const auto path = [](std::array<int64_t, 3> size, int64_t points, int64_t features) {
    VoxelizeProblem problem;
    problem.grid.size = size, problem.num_points = points, problem.num_features = features;
    problem.options.mode = VoxelMode::mean;
    return plan_voxels(problem, 132, kShared).path;
  };
  EXPECT_EQ(path({128, 128, 128}, 500000, 8), VoxelPath::gather);
  EXPECT_EQ(path({256, 256, 256}, 4000000, 8), VoxelPath::gather);
  EXPECT_EQ(path({64, 64, 64}, 500000, 8), VoxelPath::lists) << "more points than voxels";
  EXPECT_EQ(path({128, 128, 128}, 900000, 8), VoxelPath::lists) << "more points of a bin than slots";
  EXPECT_EQ(path({128, 128, 128}, 1000, 33), VoxelPath::lists) << "more columns than lanes";
  EXPECT_GE(gather_slots(kShared, 8192, 32).all, 2600u);
  EXPECT_GE(gather_slots(kShared, 8192, 32).fetched, 1900u);
  EXPECT_EQ(gather_slots(10 << 10, 8192, 32).all, 0u);
}

/// Counters of bins are added up in fours, also on a device of one multiprocessor.
TEST(VoxelPlan, BinsAreWholeQuads) {
  VoxelizeProblem problem;
  problem.grid.size = {2, 2, 2}, problem.num_points = 200000;
  EXPECT_EQ(plan_voxels(problem, 1, kShared).num_bins() % 4, 0u);
}

/// A plane, a corner and a line of a cube are spread over most bins.
TEST(VoxelPlan, DenseRegionsAreSpread) {
  const VoxelPlan plan = plan_of({128, 128, 128}, 500000, VoxelMode::max);
  const auto bins_of = [&](auto inside) {
    std::set<uint32_t> bins;
    for (uint32_t x = 0; x < 128; ++x)
      for (uint32_t y = 0; y < 128; ++y)
        for (uint32_t z = 0; z < 128; ++z)
          if (inside(x, y, z)) bins.insert(place_in_bins((x * 128 + y) * 128 + z, plan.bin_bits).bin);
    return bins.size();
  };
  EXPECT_GT(bins_of([](uint32_t, uint32_t, uint32_t z) { return z == 25; }), plan.num_bins() * 9 / 10);
  EXPECT_GT(bins_of([](uint32_t, uint32_t y, uint32_t) { return y == 64; }), plan.num_bins() / 3);
  EXPECT_GT(bins_of([](uint32_t x, uint32_t y, uint32_t z) { return x < 64 && y < 64 && z < 64; }),
            plan.num_bins() * 9 / 10);
}

/// Ranks that divide the bins agree on them and on the room for tiles, whatever their devices and points.
TEST(VoxelPlan, RanksDivideBinsEqually) {
  for (const auto& size : {std::array<int64_t, 3>{200, 210, 220}, {256, 256, 256}, {512, 512, 1024}})
    for (const int ranks : {1, 2, 3, 4, 16}) {
      VoxelizeProblem problem;
      problem.grid.size = size;
      problem.options.mode = VoxelMode::count;
      problem.sorted_parts.num_ranks = ranks;
      const int64_t voxels = num_voxels(problem.grid);
      ASSERT_TRUE(divides_bins(voxels));
      for (const int sms : {1, 78, 132, 300})
        for (const int64_t points : {0, 1, 12'289, 700'001, 20'000'000, 200'000'003}) {
          SCOPED_TRACE(std::to_string(voxels) + " voxels, " + std::to_string(ranks) + " ranks, " + std::to_string(sms) +
                       " multiprocessors, " + std::to_string(points) + " points");
          problem.num_points = points;
          const VoxelPlan plan = plan_voxels(problem, sms, kShared);
          EXPECT_EQ(plan.bin_bits, divided_bin_bits(voxels, ranks));
          EXPECT_LE(plan.bin_voxels(), kMaxPackedVoxels);
          EXPECT_GE(int64_t{plan.num_bins()} * plan.bin_voxels(), voxels);
          EXPECT_LE(plan.tile_points, kMaxTilePoints);
          EXPECT_GE(plan.num_tiles * plan.tile_points, points);
          EXPECT_LE(plan.num_tiles, most_sorted_tiles(points));
          EXPECT_LE(most_sorted_tiles(points), most_sorted_tiles(points + 1)) << "less room for more points";
        }
      const uint32_t bins = 1u << divided_bin_bits(voxels, ranks);
      EXPECT_EQ(first_bin_of(0, ranks, bins), 0u);
      EXPECT_EQ(first_bin_of(ranks, ranks, bins), bins);
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_GE(first_bin_of(rank + 1, ranks, bins), first_bin_of(rank, ranks, bins) + 85) << "rank " << rank;
    }
  EXPECT_FALSE(divides_bins(128 * 128 * 128)) << "which would leave a rank few bins";
  EXPECT_FALSE(divides_bins(int64_t{kMaxPackedVoxels} * kMaxBins + 1));
}

}  // namespace
}  // namespace amdahl

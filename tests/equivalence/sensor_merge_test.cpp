// A cloud that is voxelized in parts on 1 to 4 virtual devices and merged is, on every one of them, the grid that one
// device makes: bit for bit, but for the f32 mean.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "comm/world.h"
#include "sensor/ops/merge.h"
#include "sensor/ops/shard.h"
#include "waits.h"

namespace amdahl::test {
namespace {

constexpr int64_t kFeatures = 3;
constexpr double kMergeTimeout = 20;
enum class Values { normal, signed_zeros, large_and_small };

struct Cloud {
  std::vector<float> points;    // [N, 3]
  std::vector<float> features;  // [N, kFeatures]
  int64_t num_points() const { return std::ssize(points) / 3; }
};

VoxelGrid small_grid() {
  VoxelGrid grid;
  grid.minimum = {-1, -1, -1};
  grid.voxel_size = 0.25f;
  grid.size = {9, 7, 5};  // 315 voxels: the last mask word is not full
  return grid;
}

/// Points in and around the grid, many to a voxel.
Cloud random_cloud(int64_t num_points, Values values) {
  std::mt19937_64 random(17);
  std::uniform_real_distribution<float> place(-1.2f, 1.4f);
  std::normal_distribution<float> normal;
  Cloud cloud;
  for (int64_t i = 0; i < 3 * num_points; ++i) cloud.points.push_back(place(random));
  for (int64_t i = 0; i < kFeatures * num_points; ++i) {
    float value = normal(random);
    if (values == Values::signed_zeros) value = std::copysign(0.0f, value);
    if (values == Values::large_and_small) value = std::ldexp(value, static_cast<int>(random() % 60) - 30);
    cloud.features.push_back(value);
  }
  return cloud;
}

struct MergeCase {
  VoxelMode mode;
  bool deterministic;
  MergeMethod method;
};

std::vector<MergeCase> merge_cases() {
  std::vector<MergeCase> all;
  for (const MergeMethod method : {MergeMethod::collective, MergeMethod::bitmask, MergeMethod::bytes})
    for (const VoxelMode mode :
         {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean, VoxelMode::max})
      for (const bool deterministic : {false, true})
        if (can_merge(mode, method).ok && (!deterministic || mode == VoxelMode::mean))
          all.push_back({mode, deterministic, method});
  return all;
}

std::string merge_name(const ::testing::TestParamInfo<MergeCase>& info) {
  const MergeCase& c = info.param;
  return fmt::format("{}{}_{}", to_string(c.mode), c.deterministic ? "_deterministic" : "", to_string(c.method));
}

/// The grid that rank `rank` ends with.
std::vector<char> grid_of(const MergeCase& c, const Cloud& cloud, ItemRange range, Device& device, Communicator& comm,
                          MergeMethod method) {
  const std::unique_ptr<Stream> stream = device.make_stream("sensor");
  const std::unique_ptr<SensorOps> ops = make_cpu_sensor_ops(device);
  VoxelizeProblem problem;
  problem.grid = small_grid();
  problem.options.mode = c.mode;
  problem.options.deterministic = c.deterministic;
  problem.num_points = range.count();
  problem.num_features = kFeatures;
  problem.points = cloud.points.data() + range.begin * 3;
  problem.features = cloud.features.data() + range.begin * kFeatures;
  std::vector<char> output(voxelize_output_bytes(problem), '\x5a');
  problem.output = output.data();
  GridMerge merge(device, *ops, comm, problem, cloud.num_points(), method);
  for (int call = 0; call < 2; ++call) {  // the second finds what the first left in the memory between
    merge.compute(*stream, problem);
    merge.merge(*stream, problem);
  }
  stream->synchronize(soon());
  return output;
}

std::vector<std::vector<char>> merged_grids(const MergeCase& c, const Cloud& cloud,
                                            const std::vector<ItemRange>& split) {
  const int world = static_cast<int>(split.size());
  const auto devices = make_cpu_devices(world);
  const auto comms = make_inproc_communicators(world, kMergeTimeout);
  std::vector<std::vector<char>> grids(split.size());
  run_rank_threads(
      world,
      [&](int rank) {
        const auto i = static_cast<size_t>(rank);
        grids[i] = grid_of(c, cloud, split[i], *devices[i], *comms[i], c.method);
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
  return grids;
}

std::vector<char> one_device_grid(const MergeCase& c, const Cloud& cloud) {
  const auto devices = make_cpu_devices(1);
  const auto comm = make_lone_communicator(*devices.front());
  return grid_of(c, cloud, {0, cloud.num_points()}, *devices.front(), *comm, MergeMethod::none);
}

std::vector<std::vector<double>> splits() {
  return {{1},       {1, 1},    {1, 3},       {0, 1},       {1, 0},       {1, 1, 1},
          {0, 0, 1}, {5, 0, 2}, {1, 1, 1, 1}, {0, 1, 0, 1}, {1, 2, 3, 4}, {0, 0, 0, 1}};
}

void expect_grid(const MergeCase& c, const std::vector<char>& merged, const std::vector<char>& single) {
  ASSERT_EQ(merged.size(), single.size());
  if (c.mode != VoxelMode::mean || c.deterministic) {
    EXPECT_EQ(std::memcmp(merged.data(), single.data(), single.size()), 0);
    return;
  }
  std::vector<float> got(merged.size() / sizeof(float)), want(got.size());
  std::memcpy(got.data(), merged.data(), merged.size());
  std::memcpy(want.data(), single.data(), single.size());
  // Means of at most 30 normal values: partial sums below 2^6, each addition off by half a unit at most.
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << "value " << i;
}

/// A collective may keep either zero of -0 and +0: whatever it kept, the grid is the one device's.
TEST(SensorMergeZeros, HaveOneSignInTheGrid) {
  const auto devices = make_cpu_devices(1);
  const auto ops = make_cpu_sensor_ops(*devices.front());
  const auto stream = devices.front()->make_stream("sensor");
  const float none = -std::numeric_limits<float>::infinity();
  std::vector<float> grid{-0.0f, 0.0f, none, -1.0f, 2.0f, -std::numeric_limits<float>::denorm_min()};
  VoxelizeProblem merged;
  merged.grid.size = {6, 1, 1};
  merged.num_features = 1;
  merged.options.mode = VoxelMode::max;
  merged.partial = true;
  merged.output = grid.data();
  ops->finish(*stream, merged);
  stream->synchronize(soon());
  const std::vector<float> wanted{0.0f, 0.0f, 0.0f, -1.0f, 2.0f, -std::numeric_limits<float>::denorm_min()};
  EXPECT_EQ(std::memcmp(grid.data(), wanted.data(), sizeof(float) * wanted.size()), 0);
  const Cloud zeros = random_cloud(2000, Values::signed_zeros);
  const std::vector<char> single = one_device_grid({VoxelMode::max, false, MergeMethod::collective}, zeros);
  EXPECT_EQ(std::count(single.begin(), single.end(), '\0'), std::ssize(single)) << "a zero with a sign";
}

class SensorMerge : public ::testing::TestWithParam<MergeCase> {};

TEST_P(SensorMerge, EqualsOneDevice) {
  const MergeCase& c = GetParam();
  for (const int64_t num_points : {0, 1, 3, 2000})
    for (const Values values : {Values::normal, Values::signed_zeros, Values::large_and_small}) {
      const bool inexact = c.mode == VoxelMode::mean && !c.deterministic;
      if (inexact && values == Values::large_and_small) continue;  // no tolerance fits all voxels
      const Cloud cloud = random_cloud(num_points, values);
      const std::vector<char> single = one_device_grid(c, cloud);
      for (const std::vector<double>& weights : splits()) {
        SCOPED_TRACE(fmt::format("{} points, values {}, {} devices, first share {}", num_points,
                                 static_cast<int>(values), weights.size(), weights.front()));
        const auto grids = merged_grids(c, cloud, split_by_weight(num_points, weights));
        for (const std::vector<char>& grid : grids) expect_grid(c, grid, single);
        if (HasFailure()) return;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, SensorMerge, ::testing::ValuesIn(merge_cases()), merge_name);

/// Voxels of more points than a byte holds, in every rank or in one alone.
TEST(SensorMerges, CountsBeyondBytes) {
  Cloud cloud = random_cloud(6000, Values::normal);
  for (size_t i = 0; i < cloud.points.size(); ++i)
    if (i / 3 % 3 == 0 || i / 3 < 1000) cloud.points[i] = i / 3 % 2 == 0 ? 0.1f : -0.3f;
  const MergeCase c{VoxelMode::count, false, MergeMethod::bytes};
  const std::vector<char> single = one_device_grid(c, cloud);
  for (const std::vector<double>& weights : splits()) {
    SCOPED_TRACE(fmt::format("{} devices, first share {}", weights.size(), weights.front()));
    for (const std::vector<char>& grid : merged_grids(c, cloud, split_by_weight(cloud.num_points(), weights)))
      expect_grid(c, grid, single);
  }
}

TEST(SensorMerges, CountsGoByBytesWhereTheyAreFewer) {
  EXPECT_EQ(best_merge(VoxelMode::count, 1 << 21, 125'000, 4), MergeMethod::bytes);
  EXPECT_EQ(best_merge(VoxelMode::count, 1000, 125'000, 4), MergeMethod::collective) << "lists of every voxel";
  EXPECT_EQ(best_merge(VoxelMode::count, 1 << 21, 1000, 256), MergeMethod::collective)
      << "no byte holds 256 ranks' points";
  EXPECT_EQ(best_merge(VoxelMode::max, 1 << 21, 1000, 4), MergeMethod::collective);
  EXPECT_EQ(best_merge(VoxelMode::occupancy, 1 << 21, 1000, 4), MergeMethod::bitmask);
}

TEST(SensorMerges, GridsThatCannotBeMergedSoAreRefused) {
  EXPECT_FALSE(can_merge(VoxelMode::count, MergeMethod::bitmask).ok);
  EXPECT_FALSE(can_merge(VoxelMode::max, MergeMethod::bitmask).ok);
  EXPECT_FALSE(can_merge(VoxelMode::bitmask, MergeMethod::collective).ok);
  EXPECT_FALSE(can_merge(VoxelMode::occupancy, MergeMethod::bytes).ok);
  const MergeCase count{VoxelMode::count, false, MergeMethod::bitmask};
  EXPECT_THROW(merged_grids(count, random_cloud(10, Values::normal), split_evenly(10, 2)), Error);
  for (const MergeCase& c : merge_cases()) EXPECT_TRUE(can_merge(c.mode, best_merge(c.mode)).ok);
}

TEST(SensorMerges, WithoutAMergeEachDeviceKeepsItsOwnGrid) {
  const MergeCase c{VoxelMode::count, false, MergeMethod::none};
  const Cloud cloud = random_cloud(100, Values::normal);
  const auto grids = merged_grids(c, cloud, {{0, 40}, {40, 100}});
  EXPECT_NE(grids[0], grids[1]);
  int64_t points = 0;
  for (const auto& grid : grids)
    for (size_t i = 0; i < grid.size(); i += sizeof(int32_t)) {
      int32_t count;
      std::memcpy(&count, grid.data() + i, sizeof(count));
      points += count;
    }
  int64_t inside = 0;
  const std::vector<char> whole = one_device_grid(c, cloud);
  for (size_t i = 0; i < whole.size(); i += sizeof(int32_t)) {
    int32_t count;
    std::memcpy(&count, whole.data() + i, sizeof(count));
    inside += count;
  }
  EXPECT_EQ(points, inside);
}

}  // namespace
}  // namespace amdahl::test

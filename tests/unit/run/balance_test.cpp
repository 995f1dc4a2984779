// Placement of tasks and shares of items over heterogeneous devices.
#include "sensor/ops/balance.h"
#include "device/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "amdahl/error.h"
#include "device/device.h"
#include "sensor/measure/placement.h"
#include "sensor/ops/shard.h"
#include "sensor/ops/sm_limited.h"

namespace amdahl::test {
namespace {

TaskCosts homogeneous(const std::vector<double>& costs, size_t devices) {
  TaskCosts table;
  for (const double cost : costs) table.emplace_back(devices, cost);
  return table;
}

/// The shortest makespan of all placements.
double best_makespan_us(const TaskCosts& costs) {
  const size_t devices = costs.front().size();
  std::vector<int> device_of(costs.size(), 0);
  double best = placed(costs, device_of).makespan_us();
  for (size_t i = 0; i < costs.size();) {  // counts in base `devices`
    if (++device_of[i] == static_cast<int>(devices)) {
      device_of[i++] = 0;
      continue;
    }
    best = std::min(best, placed(costs, device_of).makespan_us());
    i = 0;
  }
  return best;
}

TEST(Placement, LongestTasksComeFirst) {
  const Placement placement = place_longest_first(homogeneous({2, 7, 3, 6}, 2));
  EXPECT_EQ(placement.device_of, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(placement.load_us, (std::vector<double>{9, 9}));
  EXPECT_EQ(placement.makespan_us(), 9);
}

TEST(Placement, MoreDevicesThanTasksLeaveSomeEmpty) {
  const Placement placement = place_longest_first(homogeneous({5, 4}, 3));
  EXPECT_EQ(placement.load_us, (std::vector<double>{5, 4, 0}));
}

TEST(Placement, UnlikeDevicesGetWhatTheyEndEarliest) {
  // The first device is ten times as fast: everything goes there until the other would end earlier.
  const Placement placement = place_longest_first({{1, 10}, {1, 10}, {1, 2}});
  EXPECT_EQ(placement.device_of, (std::vector<int>{0, 0, 1}));
}

TEST(Placement, IsWithinGrahamsBoundOfTheBest) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> cost(1, 100);
  for (int round = 0; round < 200; ++round) {
    const size_t devices = 2 + random() % 2;
    std::vector<double> costs(1 + random() % 7);
    std::generate(costs.begin(), costs.end(), [&] { return cost(random); });
    const TaskCosts table = homogeneous(costs, devices);
    const double best = best_makespan_us(table), got = place_longest_first(table).makespan_us();
    const double limit = 4.0 / 3 - 1.0 / (3.0 * static_cast<double>(devices));
    EXPECT_LE(got, best * limit + 1e-9);
    EXPECT_LE(makespan_bound_us(table), best + 1e-9);
  }
}

TEST(Placement, BoundHoldsForUnlikeDevices) {
  std::mt19937_64 random(12);
  std::uniform_real_distribution<double> cost(1, 100);
  for (int round = 0; round < 200; ++round) {
    TaskCosts table(1 + random() % 6, std::vector<double>(2 + random() % 2));
    for (auto& task : table) {
      task.resize(table.front().size());
      std::generate(task.begin(), task.end(), [&] { return cost(random); });
    }
    EXPECT_LE(makespan_bound_us(table), best_makespan_us(table) + 1e-9);
  }
}

TEST(Placement, BoundIsTheLongestTaskOrTheEvenShare) {
  EXPECT_EQ(makespan_bound_us(homogeneous({10, 1, 1}, 2)), 10);
  EXPECT_EQ(makespan_bound_us(homogeneous({4, 4, 4}, 2)), 6);
}

// ---- policies ----

std::vector<SensorJob> mixed_tasks() {
  SensorJob fuse;
  fuse.operation = SensorOperation::fuse;
  fuse.num_items = 4;
  fuse.streams = {{30, 512}};
  fuse.num_targets = 50;
  SensorJob cloud;
  cloud.num_items = 1000;
  cloud.grid.size = {8, 8, 8};
  return {fuse, cloud};
}

TEST(PlacementPolicy, NamesSayWhatRunsWhere) {
  const std::vector<SensorJob> tasks = mixed_tasks();
  const TaskCosts costs{{30, 10}, {20, 10}};  // device 1 is the faster
  const auto place = [&](const char* policy) { return find_placement_policy(policy).place(tasks, costs).device_of; };
  EXPECT_EQ(place("one-device"), (std::vector<int>{1, 1}));
  EXPECT_EQ(place("even"), (std::vector<int>{0, 1}));
  EXPECT_EQ(place("voxelize-here-fuse-there"), (std::vector<int>{0, 1}));
  ASSERT_GT(operations_per_byte(tasks[1]), operations_per_byte(tasks[0]));
  EXPECT_EQ(place("compute-here-memory-there"), (std::vector<int>{0, 1}));
  EXPECT_EQ(place("cost"), (std::vector<int>{1, 0}));
  EXPECT_THROW(find_placement_policy("costs"), Error);
}

TEST(PlacementPolicy, EveryOneWorksOnOneDevice) {
  for (const PlacementPolicy& policy : placement_policies())
    EXPECT_EQ(policy.place(mixed_tasks(), {{3}, {4}}).load_us, std::vector<double>{7}) << policy.name;
}

// ---- shares ----

/// Shares after blocks on devices of these true speeds (items a us), each time off by up to `noise`.
SpeedShares after_blocks(const std::vector<double>& assumed, const std::vector<double>& speeds, double noise,
                         int blocks) {
  constexpr int64_t kItems = 100'000;
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> off(1 - noise, 1 + noise);
  SpeedShares shares(assumed);
  for (int block = 0; block < blocks; ++block) {
    std::vector<int64_t> items;
    std::vector<double> us;
    for (const ItemRange& range : split_by_weight(kItems, shares.shares())) {
      items.push_back(range.count());
      us.push_back(static_cast<double>(range.count()) / speeds[items.size() - 1] * off(random));
    }
    shares.update(items, us);
  }
  return shares;
}

TEST(SpeedShares, AreInProportion) {
  EXPECT_EQ(SpeedShares({1, 3}).shares(), (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(balanced_time_us(80, {1, 3}), 20);
  EXPECT_THROW(SpeedShares({1, 0}), Error);
}

TEST(SpeedShares, FindADeviceThatIsSlowerThanThought) {
  const SpeedShares shares = after_blocks({1, 1, 1}, {1, 0.25, 1}, 0, 20);
  EXPECT_NEAR(shares.shares()[1], 0.25 / 2.25, 1e-4);
  EXPECT_LT(shares.last_change(), 1e-4);
}

TEST(SpeedShares, SettleWithinTheNoise) {
  const SpeedShares shares = after_blocks({1, 1}, {1, 0.5}, 0.05, 60);
  EXPECT_NEAR(shares.shares()[1], 1.0 / 3, 0.02);
  EXPECT_LT(shares.last_change(), 0.02);
}

TEST(SpeedShares, FixedCostsEndInEqualTimes) {
  // us = 50 + items / speed: a share by speed alone gives unequal times.
  const std::vector<double> speeds{10, 5};
  SpeedShares shares(speeds);
  std::vector<double> us(2);
  for (int block = 0; block < 60; ++block) {
    const std::vector<ItemRange> ranges = split_by_weight(3000, shares.shares());
    for (size_t i = 0; i < 2; ++i)
      us[i] = 50 * static_cast<double>(i) + static_cast<double>(ranges[i].count()) / speeds[i];
    shares.update({ranges[0].count(), ranges[1].count()}, us);
  }
  EXPECT_NEAR(us[0], us[1], 1);
}

TEST(SpeedShares, ADeviceWithoutItemsKeepsItsSpeed) {
  SpeedShares shares({1, 1});
  shares.update({10, 0}, {10, 0});
  EXPECT_EQ(shares.shares(), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(shares.last_change(), 0);
}

// ---- limited to a fraction of their speed ----

/// Counts the points that it is given.
class CountingOps final : public SensorOps {
 public:
  explicit CountingOps(std::vector<int64_t>& counts) : counts_(counts) {}
  void fuse(Stream&, const FuseProblem& problem) override { counts_.push_back(problem.batch); }
  void voxelize(Stream&, const VoxelizeProblem& problem) override { counts_.push_back(problem.num_points); }
  void check_times(Stream&, const std::vector<TimesRows>&, TimesFault*) override {}
  size_t voxelize_scratch_bytes(const VoxelizeProblem&) const override { return 0; }
  void fixed_point_scale(Stream&, const VoxelizeProblem&, int64_t, float*) override {}
  void finish(Stream&, const VoxelizeProblem&) override {}
  void add_byte_counts(Stream&, const ByteCounts&, void*, int32_t*) override {}
  void merge_masks(Stream&, uint32_t*, const uint32_t*, int64_t) override {}
  void expand_mask(Stream&, const uint32_t*, int32_t*, int64_t) override {}

 private:
  std::vector<int64_t>& counts_;
};

TEST(SmLimited, RepeatsTheWorkAndEndsWithTheWhole) {
  const auto devices = make_cpu_devices(1);
  const auto stream = devices[0]->make_stream("sensor");
  std::vector<int64_t> counts;
  const auto ops = limit_speed(*devices[0], std::make_unique<CountingOps>(counts), 0.4);  // 2.5 times
  VoxelizeProblem cloud;
  cloud.num_points = 1000;
  ops->voxelize(*stream, cloud);
  EXPECT_EQ(counts, (std::vector<int64_t>{1000, 500, 1000}));
  counts.clear();
  FuseProblem rows;
  rows.batch = 8;
  ops->fuse(*stream, rows);
  EXPECT_EQ(counts, (std::vector<int64_t>{8, 4, 8}));
}

TEST(SmLimited, FractionsOutsideAreRefused) {
  const auto devices = make_cpu_devices(1);
  for (const double fraction : {0.0, -0.5, 1.01, std::nan("")})
    EXPECT_THROW(limit_speed(*devices[0], make_cpu_sensor_ops(*devices[0]), fraction), Error) << fraction;
}

TEST(SmLimited, PartsOfAGpuAreWholeGroups) {
  EXPECT_EQ(partition_size(0.5, 132, 8, 8), 64);  // 66 is nearer to 64 than to 72
  EXPECT_EQ(partition_size(0.25, 132, 8, 8), 32);
  EXPECT_EQ(partition_size(0.06061, 132, 8, 8), 8);
  EXPECT_EQ(partition_size(0.999, 132, 8, 8), 128);  // never all
  EXPECT_EQ(partition_size(0.999, 128, 8, 8), 120);
  EXPECT_EQ(partition_size(0.1, 46, 4, 2), 4);
  for (const auto& [share, all] : {std::pair{0.06, 132}, {0.5, 8}, {0.0, 132}, {1.0, 132}, {-1.0, 132}}) try {
      partition_size(share, all, 8, 8);
      ADD_FAILURE() << share << " of " << all;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::usage);
    }
}

}  // namespace
}  // namespace amdahl::test

// Splits of items over devices: whatever the counts and weights, ranges follow each other, cover everything and are as
// near to their shares as whole items allow.
#include "sensor/ops/shard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "amdahl/error.h"

namespace amdahl {
namespace {

void expect_partition(const std::vector<ItemRange>& ranges, int64_t num_items) {
  int64_t at = 0;
  for (const ItemRange& range : ranges) {
    EXPECT_EQ(range.begin, at);
    EXPECT_GE(range.count(), 0);
    at = range.end;
  }
  EXPECT_EQ(at, num_items);
}

TEST(Shard, EvenRangesDifferByOneAtMost) {
  for (const int64_t items : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{10}, int64_t{500'000}, int64_t{1} << 40})
    for (int parts = 1; parts <= 9; ++parts) {
      const std::vector<ItemRange> ranges = split_evenly(items, parts);
      ASSERT_EQ(ranges.size(), static_cast<size_t>(parts));
      expect_partition(ranges, items);
      for (const ItemRange& range : ranges) {
        EXPECT_GE(range.count(), items / parts);
        EXPECT_LE(range.count(), (items + parts - 1) / parts);
      }
    }
}

TEST(Shard, FewerItemsThanPartsLeaveSomeEmpty) {
  EXPECT_EQ(split_evenly(2, 4), (std::vector<ItemRange>{{0, 1}, {1, 2}, {2, 2}, {2, 2}}));
}

TEST(Shard, WhatIsLeftGoesToTheLargestRemainders) {
  // Shares 4.5, 3.375 and 1.125: floors 4, 3 and 1, and the one left to the first.
  EXPECT_EQ(split_by_weight(9, {4, 3, 1}), (std::vector<ItemRange>{{0, 5}, {5, 8}, {8, 9}}));
  EXPECT_EQ(split_by_weight(10, {0, 1, 0, 1}), (std::vector<ItemRange>{{0, 0}, {0, 5}, {5, 5}, {5, 10}}));
  EXPECT_EQ(split_by_weight(7, {1e-30, 1e-30}), (std::vector<ItemRange>{{0, 4}, {4, 7}}));
}

TEST(Shard, RandomWeightsStayWithinOneOfTheirShare) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> weight(0, 3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> weights(1 + random() % 8);
    for (double& w : weights) w = random() % 4 == 0 ? 0 : weight(random);
    weights.back() += 0.01;
    const auto items = static_cast<int64_t>(random() % 1'000'000);
    const std::vector<ItemRange> ranges = split_by_weight(items, weights);
    expect_partition(ranges, items);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double share = static_cast<double>(items) * weights[i] / sum;
      EXPECT_LT(std::fabs(static_cast<double>(ranges[i].count()) - share), 1 + 1e-6) << "part " << i;
      EXPECT_TRUE(weights[i] > 0 || ranges[i].count() == 0) << "part " << i;
    }
  }
}

TEST(Shard, RefusesWhatIsNoShare) {
  EXPECT_THROW(split_by_weight(4, {1, -1}), Error);
  EXPECT_THROW(split_by_weight(4, {0, 0}), Error);
  EXPECT_THROW(split_by_weight(4, {1, NAN}), Error);
  EXPECT_THROW(split_by_weight(4, {}), Error);
}

}  // namespace
}  // namespace amdahl

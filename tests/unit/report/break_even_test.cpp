#include "report/common/break_even.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace amdahl {
namespace {

using Answer = BreakEven::Answer;

SpeedupPoint point(double size, double speedup, double half = 0) {
  return {size, speedup, half > 0 ? std::optional(Interval{speedup - half, speedup + half}) : std::nullopt};
}

TEST(BreakEven, LiesWhereTheLineCrossesOnLogarithmicAxes) {
  // Speedup 0.5 at 64 and 2 at 256: 1 lies half way in both logarithms, at 128.
  const BreakEven found = find_break_even({point(256, 2), point(64, 0.5)}, 1);
  EXPECT_EQ(found.answer, Answer::at);
  EXPECT_NEAR(found.value.value(), 128, 1e-9);
  EXPECT_FALSE(found.until);
  EXPECT_FALSE(found.has_interval);
  EXPECT_EQ(found.measured_low, 64);
  EXPECT_EQ(found.measured_high, 256);
  EXPECT_NE(break_even_text(found).find("from about 128 [n/a]"), std::string::npos) << break_even_text(found);
}

TEST(BreakEven, TakesTheNeighboursAlone) {
  // From 1 at 100 to 4 at 400: 2 at 200, whatever lies before.
  for (const double first : {0.1, 0.5, 0.9})
    EXPECT_NEAR(find_break_even({point(10, first), point(100, 1), point(400, 4)}, 2).value.value(), 200, 1e-9);
}

TEST(BreakEven, IntervalComesFromTheEndsOfTheSpeedups) {
  const std::vector<SpeedupPoint> points{{64, 0.5, Interval{0.25, 1.0}}, {256, 2, Interval{1.0, 4.0}}};
  const BreakEven found = find_break_even(points, 1);
  ASSERT_TRUE(found.has_interval);
  EXPECT_FALSE(found.low);  // the upper ends reach 1 at the smallest size already
  EXPECT_NEAR(found.high.value(), 256, 1e-9);
  EXPECT_NE(break_even_place(found).find("[below 64, 256]"), std::string::npos) << break_even_place(found);
  const BreakEven narrow = find_break_even({{64, 0.5, Interval{0.4, 0.625}}, {256, 2, Interval{1.6, 2.5}}}, 1);
  EXPECT_NEAR(narrow.low.value(), 64 * std::pow(4, std::log(1 / 0.625) / std::log(4.0)), 1e-9);  // 102.4
  EXPECT_NEAR(narrow.high.value(), 64 * std::pow(4, std::log(1 / 0.4) / std::log(4.0)), 1e-9);   // 160
}

TEST(BreakEven, NeverAndAlwaysAreAnswers) {
  const BreakEven never = find_break_even({point(8, 0.3, 0.01), point(64, 0.6, 0.01)}, 1);
  EXPECT_EQ(never.answer, Answer::never);
  EXPECT_FALSE(never.value || never.low || never.high);
  EXPECT_EQ(break_even_text(never).rfind("never in the measured range; measured from 8", 0), 0u);
  const BreakEven always = find_break_even({point(8, 1.3, 0.01), point(64, 1.6, 0.01)}, 1);
  EXPECT_EQ(always.answer, Answer::always);
  EXPECT_FALSE(always.value || always.high);
  const BreakEven perhaps = find_break_even({point(8, 0.3, 0.01), point(64, 0.9, 0.2)}, 1);
  EXPECT_EQ(perhaps.answer, Answer::never);
  EXPECT_TRUE(perhaps.low && *perhaps.low > 8 && *perhaps.low < 64);
  EXPECT_NE(break_even_text(perhaps).find("perhaps from"), std::string::npos);
}

TEST(BreakEven, SaysWhereItEndsAgain) {
  const BreakEven found = find_break_even({point(1, 0.5), point(4, 2), point(16, 0.5)}, 1);
  EXPECT_NEAR(found.value.value(), 2, 1e-9);
  EXPECT_NEAR(found.until.value(), 8, 1e-9);
  const BreakEven from_start = find_break_even({point(1, 2), point(4, 0.5)}, 1);
  EXPECT_EQ(from_start.answer, Answer::at);
  EXPECT_EQ(from_start.value, 1);
  EXPECT_NEAR(from_start.until.value(), 2, 1e-9);
}

TEST(BreakEven, AJumpIsATimeThatGrowsAsTheBatchAndThenHardly) {
  const auto one = [](double size, double us) { return SpeedupPoint{size, 1, {}, us}; };
  EXPECT_TRUE(is_jump(one(64, 28.6), one(128, 57.2), one(256, 58)));
  EXPECT_FALSE(is_jump(one(64, 28.6), one(128, 57.2), one(256, 114))) << "in proportion to the batch";
  EXPECT_FALSE(is_jump(one(64, 28.6), one(128, 29), one(256, 29.5))) << "hardly at all";
  EXPECT_FALSE(is_jump(one(64, 28.6), one(128, 29), one(256, 58))) << "between the next two";
  EXPECT_FALSE(is_jump(one(64, 0), one(128, 57.2), one(256, 58))) << "a time is not known";
  const auto grows = [&](double below, double above) {  // exponents of the size
    return is_jump(one(64, 10), one(128, 10 * std::pow(2, below)), one(256, 10 * std::pow(2, below + above)));
  };
  EXPECT_TRUE(grows(0.91, 0.49));
  EXPECT_FALSE(grows(0.89, 0.49));
  EXPECT_FALSE(grows(0.91, 0.51));
}

TEST(BreakEven, IsNotInterpolatedAcrossAJump) {
  const std::vector<SpeedupPoint> points{{64, 0.7, {}, 28.6}, {128, 1.32, {}, 57.2}, {256, 1.3, {}, 58}};
  const BreakEven found = find_break_even(points, 1);
  EXPECT_TRUE(found.at_jump);
  EXPECT_EQ(found.value, 128);
  EXPECT_NE(break_even_text(found).find("from 128, not at 64 (not interpolated"), std::string::npos)
      << break_even_text(found);
  std::vector<SpeedupPoint> smooth = points;
  smooth[2].one_us = 114;
  EXPECT_FALSE(find_break_even(smooth, 1).at_jump);
  EXPECT_LT(find_break_even(smooth, 1).value.value(), 128);
}

TEST(BreakEven, IsNeverExtrapolated) {
  for (uint32_t trial = 0; trial < 2000; ++trial) {
    std::vector<SpeedupPoint> points;
    const auto uniform = [&](uint32_t i, uint32_t j) { return philox(7, trial, i, j, 0).v[0] / 4294967296.0; };
    const uint32_t sizes = 2 + trial % 5;
    for (uint32_t i = 0; i < sizes; ++i)
      points.push_back(point(std::pow(2, i) * (1 + uniform(i, 0)), 0.2 + 2 * uniform(i, 1), 0.1));
    const double threshold = 0.3 + 2 * uniform(99, 0);
    const BreakEven found = find_break_even(points, threshold);
    for (const auto& place : {found.value, found.until, found.low, found.high})
      if (place) {
        EXPECT_GE(*place, found.measured_low * (1 - 1e-12));
        EXPECT_LE(*place, found.measured_high * (1 + 1e-12));
      }
    EXPECT_EQ(found.answer == Answer::at, found.value.has_value());
    bool reaches = false, stays_below = false;
    for (const SpeedupPoint& p : points) (p.speedup >= threshold ? reaches : stays_below) = true;
    EXPECT_EQ(found.answer == Answer::never, !reaches);
    EXPECT_EQ(found.answer == Answer::always, !stays_below);
  }
}

}  // namespace
}  // namespace amdahl

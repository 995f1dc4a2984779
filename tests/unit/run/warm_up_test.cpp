#include "measure/sampling/warm_up.h"

#include <gtest/gtest.h>

#include <cmath>

namespace amdahl {
namespace {

struct Outcome {
  WarmUp result;
  int blocks = 0;
};

// A device whose step takes `step_us(load so far in us)`, at a clock of `clock_mhz(load so far)`.
template <class Step, class Clock>
Outcome warm(int64_t least_steps, Step step_us, Clock clock_mhz) {
  WarmUpRule rule(least_steps);
  Outcome outcome;
  for (double load = 0; !rule.done() && outcome.blocks < 100'000; ++outcome.blocks) {
    const int64_t steps = rule.next_block();
    const double each = step_us(load);
    load += each * static_cast<double>(steps);
    rule.add(steps, each, clock_mhz(load));
  }
  outcome.result = rule.result();
  return outcome;
}

TEST(WarmUp, LastsUntilTheClockHasRisen) {
  // 345 MHz when idle, 1,980 after 0.4 s under load; steps follow the clock.
  const auto clock = [](double load_us) { return 345 + (1980 - 345) * std::min(1.0, load_us / 400e3); };
  const Outcome outcome = warm(
      10, [&](double load_us) { return 32.0 * 1980 / clock(load_us); }, clock);
  EXPECT_TRUE(outcome.result.settled);
  EXPECT_GE(outcome.result.load_us, 400e3);
  EXPECT_LT(outcome.result.load_us, 800e3);
  EXPECT_NEAR(outcome.result.drift_percent, 0, 0.5);
}

TEST(WarmUp, WaitsForTimeUnderLoadWhereThereIsAClock) {
  const Outcome gpu = warm(
      10, [](double) { return 32.0; }, [](double) { return 1980.0; });
  EXPECT_GE(gpu.result.load_us, WarmUpRule::kLeastLoadUs);
  EXPECT_TRUE(gpu.result.settled);
  const Outcome host = warm(
      10, [](double) { return 32.0; }, [](double) { return -1.0; });
  EXPECT_GE(host.result.load_us, WarmUpRule::kLeastClocklessUs);
  EXPECT_LT(host.result.load_us, WarmUpRule::kLeastLoadUs);
}

TEST(WarmUp, EndsAtItsLimitAndSaysThatItDidNotSettle) {
  const Outcome outcome = warm(
      10, [](double load_us) { return 1000 + load_us / 1000; }, [](double) { return -1.0; });
  EXPECT_FALSE(outcome.result.settled);
  EXPECT_GE(outcome.result.load_us, WarmUpRule::kMostLoadUs);
  EXPECT_GT(outcome.result.drift_percent, 0.5);
}

TEST(WarmUp, AnUnsteadyClockIsNotSettled) {
  int reading = 0;
  const Outcome outcome = warm(
      10, [](double) { return 100.0; }, [&](double) { return ++reading % 2 ? 1500.0 : 1980.0; });
  EXPECT_FALSE(outcome.result.settled);
}

TEST(WarmUp, DoesTheStepsThatWereAskedForWhenTheyAreLong) {
  const Outcome outcome = warm(
      10, [](double) { return 800e3; }, [](double) { return -1.0; });
  EXPECT_GE(outcome.result.steps, 10);
  EXPECT_LE(outcome.result.steps, 14);
}

}  // namespace
}  // namespace amdahl

// The learning rate of a step, computed where the step counter lies.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace amdahl {

enum class RateSchedule { constant, linear, cosine };

/// A rate that rises linearly over the first `warmup_steps` steps to its full value, then stays (constant) or falls to
/// 0 at step `total_steps`, linearly or as half a cosine wave; it stays 0 after that.
struct RatePlan {
  RateSchedule schedule = RateSchedule::constant;
  int64_t warmup_steps = 0, total_steps = 0;
  bool is_constant() const { return schedule == RateSchedule::constant && warmup_steps == 0; }
};

/// Sets *rate to the learning rate of the step that follows *step finished ones.
struct SetRate {
  RatePlan plan;
  float base;  // the full value
  const uint64_t* step;
  float* rate;
};

/// The learning rate of the step with number `step`, from 0.
AMDAHL_HOST_DEVICE float rate_of_step(const RatePlan& plan, float base, uint64_t step) {
  const double at = static_cast<double>(step), warmup = static_cast<double>(plan.warmup_steps);
  if (at < warmup) return static_cast<float>(static_cast<double>(base) * ((at + 1.0) / warmup));
  if (plan.schedule == RateSchedule::constant) return base;
  const double span = static_cast<double>(plan.total_steps) - warmup;
  const double passed = at - warmup < span ? (at - warmup) / span : 1.0;
  constexpr double kPi = 3.14159265358979323846;
  const double left = plan.schedule == RateSchedule::linear ? 1.0 - passed : 0.5 * (1.0 + cos(kPi * passed));
  return static_cast<float>(static_cast<double>(base) * left);
}

}  // namespace amdahl

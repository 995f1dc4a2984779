#include "stats/estimate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stats/bootstrap.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

/// The logarithm of a positive estimate.
Estimate log_of(const Estimate& estimate) {
  Estimate result{std::log(estimate.value), {}};
  if (estimate.ci && estimate.ci->low > 0)
    result.ci = Interval{std::log(estimate.ci->low), std::log(estimate.ci->high)};
  return result;
}

Estimate exp_of(const Estimate& estimate) {
  Estimate result{std::exp(estimate.value), {}};
  if (estimate.ci) result.ci = Interval{std::exp(estimate.ci->low), std::exp(estimate.ci->high)};
  return result;
}

}  // namespace

Estimate estimate_of(std::span<const double> samples) { return {median_of(samples), bootstrap_median(samples)}; }

Estimate rate_of(double work, const Estimate& time) {
  Estimate rate{work / time.value, {}};
  if (time.ci && time.ci->low > 0) rate.ci = Interval{work / time.ci->high, work / time.ci->low};
  return rate;
}

Estimate StudyCell::throughput() const {
  constexpr double kUsOfSecond = 1e6;
  return rate_of(static_cast<double>(key.global_batch) * kUsOfSecond, step_time_us.estimate());
}

Estimate scaled(const Estimate& estimate, double factor) {
  Estimate result{estimate.value * factor, {}};
  if (estimate.ci) result.ci = Interval{estimate.ci->low * factor, estimate.ci->high * factor};
  return result;
}

Estimate ratio_of(const Estimate& above, const Estimate& below) {
  const Weighted parts[] = {{log_of(above), 1}, {log_of(below), -1}};
  Estimate ratio = exp_of(sum_of(parts));
  ratio.value = above.value / below.value;  // without the rounding of logarithms
  return ratio;
}

Estimate sum_of(std::span<const Weighted> parts) {
  Estimate sum;
  double down = 0, up = 0;
  bool known = true;
  for (const auto& [estimate, weight] : parts) {
    sum.value += weight * estimate.value;
    known = known && estimate.ci.has_value();
    if (!known) continue;
    double below = weight * (estimate.value - estimate.ci->low), above = weight * (estimate.ci->high - estimate.value);
    if (weight < 0) std::swap(below, above);
    down += below * below, up += above * above;
  }
  if (known) sum.ci = Interval{sum.value - std::sqrt(down), sum.value + std::sqrt(up)};
  return sum;
}

Estimate geometric_mean(std::span<const Estimate> estimates) {
  std::vector<Weighted> parts;
  for (const Estimate& estimate : estimates)
    parts.push_back({log_of(estimate), 1 / static_cast<double>(estimates.size())});
  return exp_of(sum_of(parts));
}

}  // namespace amdahl

#include "stats/serial_fraction.h"

#include <cmath>
#include <vector>

#include "stats/estimate.h"

namespace amdahl {
namespace {

// Serial fractions that differ by less than this (a hundredth of the single-device step) count as equal.
constexpr double kSameFraction = 0.01;

/// The f of Amdahl's law 1/S = f + (1 - f)/n with the least squared error in 1/S: with x = 1 - 1/n, f = sum x (T_n /
/// T_1
/// - 1/n) / sum x^2. It is not clamped to [0, 1].
Estimate fit(const Estimate& single_us, std::span<const StepSamples> several) {
  std::vector<Weighted> times;
  double ideal = 0, below = 0;
  for (const StepSamples& samples : several) {
    const double devices = static_cast<double>(samples.devices), x = 1 - 1 / devices;
    times.push_back({samples.step_us, x});
    ideal += x / devices, below += x * x;
  }
  Estimate fitted = scaled(ratio_of(sum_of(times), single_us), 1 / below);
  fitted.value -= ideal / below;
  if (fitted.ci) fitted.ci = Interval{fitted.ci->low - ideal / below, fitted.ci->high - ideal / below};
  return fitted;
}

/// e of the last device count less e of the first: (T_l / x_l - T_f / x_f) / T_1, less the ideal. T_1 is in both.
Estimate growth(const Estimate& single_us, const StepSamples& first, const StepSamples& last) {
  const auto part = [](const StepSamples& samples) { return 1 - 1 / static_cast<double>(samples.devices); };
  const auto ideal = [](const StepSamples& samples) { return 1 / static_cast<double>(samples.devices - 1); };
  const Weighted parts[] = {{last.step_us, 1 / part(last)}, {first.step_us, -1 / part(first)}};
  const Estimate difference = scaled(sum_of(parts), 1 / single_us.value);
  Estimate grown{difference.value - ideal(last) + ideal(first), {}};
  if (!difference.ci || !single_us.ci) return grown;
  const double of_single = difference.value * single_us.ci->half_width() / single_us.value;
  grown.ci = Interval{grown.value - std::hypot(difference.value - difference.ci->low, of_single),
                      grown.value + std::hypot(difference.ci->high - difference.value, of_single)};
  return grown;
}

SerialTrend trend_of(const std::optional<Interval>& growth) {
  if (!growth) return SerialTrend::unclear;
  if (growth->low >= -kSameFraction && growth->high <= kSameFraction) return SerialTrend::constant;
  if (growth->low > 0) return SerialTrend::grows;
  if (growth->high < 0) return SerialTrend::falls;
  return SerialTrend::unclear;
}

}  // namespace

double karp_flatt(double speedup, double devices) { return (1 / speedup - 1 / devices) / (1 - 1 / devices); }

SerialFraction serial_fraction(const Estimate& single_us, std::span<const StepSamples> several) {
  SerialFraction result;
  for (const StepSamples& samples : several) {
    const double devices = static_cast<double>(samples.devices);
    SerialPoint point{samples.devices, samples.speedup.value, karp_flatt(samples.speedup.value, devices), {}};
    if (const auto& ci = samples.speedup.ci)
      point.ci = Interval{karp_flatt(ci->high, devices), karp_flatt(ci->low, devices)};
    result.points.push_back(std::move(point));
  }
  const Estimate fitted = fit(single_us, several), grown = growth(single_us, several.front(), several.back());
  result.fitted = fitted.value;
  result.fitted_ci = fitted.ci;
  result.growth = grown.value;
  result.growth_ci = grown.ci;
  result.trend = trend_of(result.growth_ci);
  return result;
}

}  // namespace amdahl

#include "stats/serial_fraction.h"

#include <cmath>

#include "stats/summary.h"

namespace amdahl {
namespace {

// Serial fractions that differ by less than this (a hundredth of the single-device step) count as equal.
constexpr double kSameFraction = 0.01;

using Means = std::span<const double>;  // mean step times: single device first, then each device count

double fraction_at(Means means, size_t i, const std::vector<double>& devices) {
  return karp_flatt(means[0] / means[i + 1], devices[i]);
}

double fit(Means means, const std::vector<double>& devices) {
  std::vector<ScalingPoint> points;
  for (size_t i = 0; i < devices.size(); ++i) points.push_back({devices[i], means[0] / means[i + 1]});
  return fit_serial_fraction(points);
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

double fit_serial_fraction(std::span<const ScalingPoint> points) {
  double above = 0, below = 0;
  for (const ScalingPoint& point : points) {
    const double x = 1 - 1 / point.devices;
    above += x * (1 / point.speedup - 1 / point.devices);
    below += x * x;
  }
  return above / below;
}

SerialFraction serial_fraction(std::span<const double> single_us, std::span<const StepSamples> several,
                               const BootstrapOptions& options) {
  std::vector<std::span<const double>> sets{single_us};
  std::vector<double> devices, means{mean_of(single_us)};
  for (const StepSamples& samples : several) {
    sets.push_back(samples.step_us);
    devices.push_back(static_cast<double>(samples.devices));
    means.push_back(mean_of(samples.step_us));
  }
  SerialFraction result;
  for (size_t i = 0; i < devices.size(); ++i)
    result.points.push_back({several[i].devices, means[0] / means[i + 1], fraction_at(means, i, devices),
                             bootstrap_of_means(
                                 sets, [&](Means drawn) { return fraction_at(drawn, i, devices); }, options)});
  const auto growth = [&](Means drawn) {
    return fraction_at(drawn, devices.size() - 1, devices) - fraction_at(drawn, 0, devices);
  };
  result.fitted = fit(means, devices);
  result.fitted_ci = bootstrap_of_means(
      sets, [&](Means drawn) { return fit(drawn, devices); }, options);
  result.growth = growth(means);
  result.growth_ci = bootstrap_of_means(sets, growth, options);
  result.trend = trend_of(result.growth_ci);
  return result;
}

}  // namespace amdahl

#include "stats/summary.h"

#include <algorithm>
#include <cmath>

#include "stats/bootstrap.h"
#include "stats/distributions.h"
#include "stats/estimate.h"

namespace amdahl {

double mean_of(std::span<const double> samples) {
  if (samples.empty()) return 0;
  // Sums deviations from the first sample: equal samples give exactly that sample, and large offsets lose no precision.
  double sum = 0;
  for (double x : samples) sum += x - samples[0];
  return samples[0] + sum / static_cast<double>(samples.size());
}

double sd_of(std::span<const double> samples) {
  if (samples.size() < 2) return 0;
  const double mean = mean_of(samples);
  double sum = 0;
  for (double x : samples) sum += (x - mean) * (x - mean);
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

double median_of(std::span<const double> samples) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  const size_t half = sorted.size() / 2;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(half), sorted.end());
  const double upper = sorted[half];
  if (sorted.size() % 2 == 1) return upper;
  const double lower = *std::max_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(half));
  return lower + (upper - lower) / 2;
}

double mad_of(std::span<const double> samples) {
  const double median = median_of(samples);
  std::vector<double> deviations;
  deviations.reserve(samples.size());
  for (double x : samples) deviations.push_back(std::abs(x - median));
  return median_of(deviations);
}

std::vector<double> modified_z(std::span<const double> samples) {
  const double median = median_of(samples);
  const double mad = mad_of(samples);
  std::vector<double> z(samples.size(), 0.0);
  if (mad > 0)
    for (size_t i = 0; i < samples.size(); ++i) z[i] = 0.6745 * ((samples[i] - median) / mad);
  return z;
}

std::vector<double> without_outliers(std::span<const double> samples) {
  const std::vector<double> z = modified_z(samples);
  std::vector<double> kept;
  for (size_t i = 0; i < samples.size(); ++i)
    if (std::abs(z[i]) <= kOutlierModifiedZ) kept.push_back(samples[i]);
  return kept;
}

std::optional<Interval> t_interval(std::span<const double> samples, double confidence) {
  if (samples.size() < 2) return std::nullopt;
  const double n = static_cast<double>(samples.size());
  const double half = student_t_quantile(0.5 + confidence / 2, n - 1) * sd_of(samples) / std::sqrt(n);
  const double mean = mean_of(samples);
  return Interval{mean - half, mean + half};
}

SampleSummary summarise(std::span<const double> samples) {
  SampleSummary s;
  if (samples.empty()) return s;
  s.n = static_cast<int64_t>(samples.size());
  s.mean = mean_of(samples);
  s.sd = sd_of(samples);
  s.median = median_of(samples);
  s.mad = mad_of(samples);
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  s.minimum = *low;
  s.maximum = *high;
  if (s.n >= kFewestRuns) s.ci = t_interval(samples);
  s.median_ci = bootstrap_median(samples);
  const std::vector<double> kept = without_outliers(samples);
  s.num_outliers = s.n - static_cast<int64_t>(kept.size());
  s.mean_without_outliers = mean_of(kept);
  s.sd_without_outliers = sd_of(kept);
  if (s.n >= kFewestRuns) s.ci_without_outliers = t_interval(kept);
  return s;
}

}  // namespace amdahl

#include "stats/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "stats/distributions.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Statistic = double (*)(std::span<const double>);

// Draws resamples of one sample set. `stream` keeps the draws of different sets independent.
class Resampler {
 public:
  Resampler(std::span<const double> samples, uint64_t seed, uint32_t stream)
      : samples_(samples), drawn_(samples.size()), seed_(seed), stream_(stream) {}

  std::span<const double> draw(uint32_t resample) {
    const uint64_t n = samples_.size();
    for (size_t i = 0; i < drawn_.size(); i += 4) {
      const Philox4 bits = philox(seed_, static_cast<uint32_t>(i / 4), resample, stream_, 0x626f6f74u);
      for (size_t j = 0; j < 4 && i + j < drawn_.size(); ++j) drawn_[i + j] = samples_[(bits.v[j] * n) >> 32];
    }
    return drawn_;
  }

 private:
  std::span<const double> samples_;
  std::vector<double> drawn_;
  uint64_t seed_;
  uint32_t stream_;
};

// The plain percentile interval of n samples is too narrow for small n. Widening its tail probability from a/2 to
// Phi(-sqrt(n / (n - 1)) t(1 - a/2, n - 1)) corrects this: the "expanded percentile interval" of Hesterberg, What
// Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), section 4.4.
double tail_probability(size_t smallest_n, double confidence) {
  const double n = static_cast<double>(smallest_n);
  return normal_upper_tail(std::sqrt(n / (n - 1)) * student_t_quantile(0.5 + confidence / 2, n - 1));
}

// Linear interpolation between order statistics.
double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Interval percentile_interval(std::vector<double> values, size_t smallest_n, double confidence) {
  std::sort(values.begin(), values.end());
  const double tail = tail_probability(smallest_n, confidence);
  return {percentile(values, tail), percentile(values, 1 - tail)};
}

std::optional<Interval> bootstrap_statistic(std::span<const double> samples, Statistic statistic,
                                            const BootstrapOptions& options) {
  if (samples.size() < 2) return std::nullopt;
  Resampler resampler(samples, options.seed, 0);
  std::vector<double> values;
  values.reserve(static_cast<size_t>(options.resamples));
  for (uint32_t r = 0; r < static_cast<uint32_t>(options.resamples); ++r)
    values.push_back(statistic(resampler.draw(r)));
  return percentile_interval(std::move(values), samples.size(), options.confidence);
}

std::optional<Interval> bootstrap_ratio(SamplePair pair, Statistic statistic, const BootstrapOptions& options) {
  const size_t smallest_n = std::min(pair.numerator.size(), pair.denominator.size());
  if (smallest_n < 2) return std::nullopt;
  Resampler numerator(pair.numerator, options.seed, 0);
  Resampler denominator(pair.denominator, options.seed, 1);
  std::vector<double> ratios;
  ratios.reserve(static_cast<size_t>(options.resamples));
  for (uint32_t r = 0; r < static_cast<uint32_t>(options.resamples); ++r) {
    const double below = statistic(denominator.draw(r));
    if (!(below > 0)) return std::nullopt;
    ratios.push_back(statistic(numerator.draw(r)) / below);
  }
  return percentile_interval(std::move(ratios), smallest_n, options.confidence);
}

}  // namespace

std::optional<Interval> bootstrap_mean(std::span<const double> samples, const BootstrapOptions& options) {
  return bootstrap_statistic(samples, mean_of, options);
}

std::optional<Interval> bootstrap_median(std::span<const double> samples, const BootstrapOptions& options) {
  return bootstrap_statistic(samples, median_of, options);
}

std::optional<Interval> bootstrap_ratio_of_means(SamplePair pair, const BootstrapOptions& options) {
  return bootstrap_ratio(pair, mean_of, options);
}

std::optional<Interval> bootstrap_ratio_of_medians(SamplePair pair, const BootstrapOptions& options) {
  return bootstrap_ratio(pair, median_of, options);
}

std::optional<Interval> bootstrap_ratio_to_sum(std::span<const double> numerator,
                                               std::span<const WeightedSamples> parts,
                                               const BootstrapOptions& options) {
  if (parts.empty()) return std::nullopt;
  size_t smallest_n = numerator.size();
  for (const WeightedSamples& part : parts) smallest_n = std::min(smallest_n, part.samples.size());
  if (smallest_n < 2) return std::nullopt;
  std::vector<double> sums(static_cast<size_t>(options.resamples), 0.0);
  for (size_t k = 0; k < parts.size(); ++k) {
    Resampler resampler(parts[k].samples, options.seed, static_cast<uint32_t>(k + 1));
    for (uint32_t r = 0; r < sums.size(); ++r) sums[r] += parts[k].weight * mean_of(resampler.draw(r));
  }
  Resampler above(numerator, options.seed, 0);
  for (uint32_t r = 0; r < sums.size(); ++r) {
    if (!(sums[r] > 0)) return std::nullopt;
    sums[r] = mean_of(above.draw(r)) / sums[r];
  }
  return percentile_interval(std::move(sums), smallest_n, options.confidence);
}

std::optional<Interval> bootstrap_of_means(std::span<const std::span<const double>> sets,
                                           const std::function<double(std::span<const double> means)>& function,
                                           const BootstrapOptions& options) {
  if (sets.empty()) return std::nullopt;
  std::vector<Resampler> resamplers;
  size_t smallest_n = sets.front().size();
  for (size_t k = 0; k < sets.size(); ++k) {
    smallest_n = std::min(smallest_n, sets[k].size());
    if (smallest_n < 2) return std::nullopt;
    resamplers.emplace_back(sets[k], options.seed, static_cast<uint32_t>(k));
  }
  std::vector<double> values, means(sets.size());
  for (uint32_t r = 0; r < static_cast<uint32_t>(options.resamples); ++r) {
    for (size_t k = 0; k < sets.size(); ++k) means[k] = mean_of(resamplers[k].draw(r));
    values.push_back(function(means));
    if (!std::isfinite(values.back())) return std::nullopt;
  }
  return percentile_interval(std::move(values), smallest_n, options.confidence);
}

std::optional<Interval> bootstrap_geometric_mean(std::span<const SamplePair> pairs, const BootstrapOptions& options) {
  if (pairs.empty()) return std::nullopt;
  std::vector<double> log_sums(static_cast<size_t>(options.resamples), 0.0);
  size_t smallest_n = pairs[0].numerator.size();
  for (size_t k = 0; k < pairs.size(); ++k) {
    smallest_n = std::min({smallest_n, pairs[k].numerator.size(), pairs[k].denominator.size()});
    if (smallest_n < 2) return std::nullopt;
    Resampler numerator(pairs[k].numerator, options.seed, static_cast<uint32_t>(2 * k));
    Resampler denominator(pairs[k].denominator, options.seed, static_cast<uint32_t>(2 * k + 1));
    for (uint32_t r = 0; r < log_sums.size(); ++r) {
      const double above = mean_of(numerator.draw(r));
      const double below = mean_of(denominator.draw(r));
      if (!(above > 0 && below > 0)) return std::nullopt;
      log_sums[r] += std::log(above / below);
    }
  }
  for (double& value : log_sums) value = std::exp(value / static_cast<double>(pairs.size()));
  return percentile_interval(std::move(log_sums), smallest_n, options.confidence);
}

}  // namespace amdahl

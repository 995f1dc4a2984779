#include "stats/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "stats/distributions.h"
#include "stats/estimate.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

// Draws resamples of one sample set.
class Resampler {
 public:
  Resampler(std::span<const double> samples, uint64_t seed) : samples_(samples), drawn_(samples.size()), seed_(seed) {}

  std::span<const double> draw(uint32_t resample) {
    const uint64_t n = samples_.size();
    for (size_t i = 0; i < drawn_.size(); i += 4) {
      const Philox4 bits = philox(seed_, static_cast<uint32_t>(i / 4), resample, 0, 0x626f6f74u);
      for (size_t j = 0; j < 4 && i + j < drawn_.size(); ++j) drawn_[i + j] = samples_[(bits.v[j] * n) >> 32];
    }
    return drawn_;
  }

 private:
  std::span<const double> samples_;
  std::vector<double> drawn_;
  uint64_t seed_;
};

// The plain percentile interval of n samples is too narrow for small n. Widening its tail probability from a/2 to
// Phi(-sqrt(n / (n - 1)) t(1 - a/2, n - 1)) corrects this: the "expanded percentile interval" of Hesterberg, What
// Teachers Should Know About the Bootstrap, The American Statistician 69 (2015), section 4.4.
double tail_probability(size_t num_samples, double confidence) {
  const double n = static_cast<double>(num_samples);
  return normal_upper_tail(std::sqrt(n / (n - 1)) * student_t_quantile(0.5 + confidence / 2, n - 1));
}

// Linear interpolation between order statistics.
double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::optional<Interval> bootstrap_median(std::span<const double> samples, const BootstrapOptions& options) {
  if (static_cast<int64_t>(samples.size()) < kFewestRuns) return std::nullopt;
  Resampler resampler(samples, options.seed);
  std::vector<double> values;
  values.reserve(static_cast<size_t>(options.resamples));
  for (uint32_t r = 0; r < static_cast<uint32_t>(options.resamples); ++r)
    values.push_back(median_of(resampler.draw(r)));
  std::sort(values.begin(), values.end());
  const double tail = tail_probability(samples.size(), options.confidence);
  return Interval{percentile(values, tail), percentile(values, 1 - tail)};
}

}  // namespace amdahl

#include "stats/stopping.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "stats/distributions.h"
#include "stats/summary.h"

namespace amdahl {

StopDecision decide_stop(std::span<const double> samples, const StopRule& rule) {
  StopDecision decision;
  const int64_t n = static_cast<int64_t>(samples.size());
  const double mean = std::abs(mean_of(samples));
  if (const auto interval = t_interval(samples); interval && mean > 0)
    decision.relative_half_width = interval->half_width() / mean;
  decision.tight = rule.rel_ci > 0 && n >= std::max<int64_t>(rule.min_samples, 2) && decision.relative_half_width &&
                   *decision.relative_half_width <= rule.rel_ci;
  decision.stop = decision.tight || n >= rule.max_samples;
  return decision;
}

Trend trend_of(std::span<const double> block_times) {
  Trend trend;
  const size_t n = block_times.size();
  if (n < 3) return trend;
  double score = 0;
  std::vector<double> slopes;
  std::map<double, double> ties;
  for (size_t i = 0; i < n; ++i) {
    ties[block_times[i]] += 1;
    for (size_t j = i + 1; j < n; ++j) {
      const double difference = block_times[j] - block_times[i];
      score += difference > 0 ? 1 : (difference < 0 ? -1 : 0);
      slopes.push_back(difference / static_cast<double>(j - i));
    }
  }
  const auto spread = [](double count) { return count * (count - 1) * (2 * count + 5) / 18; };
  double variance = spread(static_cast<double>(n));
  for (const auto& [value, count] : ties) variance -= spread(count);
  if (variance > 0 && score != 0)
    trend.p = std::min(1.0, 2 * normal_upper_tail((std::abs(score) - 1) / std::sqrt(variance)));
  const double median = median_of(block_times);
  if (median != 0) trend.relative_drift = median_of(slopes) * static_cast<double>(n - 1) / median;
  trend.trending = trend.p < 0.05 && std::abs(trend.relative_drift) > kDriftTolerance;
  return trend;
}

}  // namespace amdahl

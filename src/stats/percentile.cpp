#include "stats/percentile.h"

#include <algorithm>
#include <cmath>

namespace amdahl {

double percentile(std::vector<double> samples, double percent) {
  std::sort(samples.begin(), samples.end());
  const double place = percent / 100 * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (place - std::floor(place)) * (samples[above] - samples[below]);
}

}  // namespace amdahl

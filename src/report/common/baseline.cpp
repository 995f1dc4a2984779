#include "report/common/baseline.h"

#include <algorithm>
#include <tuple>

namespace amdahl {

std::optional<size_t> find_baseline(const std::vector<BaselineCandidate>& candidates, const BaselineQuery& query) {
  const auto rank = [&](const BaselineCandidate& c) { return std::tuple(c.manner == query.manner, c.speed); };
  std::optional<size_t> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const BaselineCandidate& c = candidates[i];
    if (!c.is_alone || c.size != query.size || c.work != query.work) continue;
    if (!query.devices.empty() &&
        std::find(query.devices.begin(), query.devices.end(), c.device) == query.devices.end())
      continue;
    if (!best || rank(c) > rank(candidates[*best])) best = i;
  }
  return best;
}

int64_t size_of_one_device(int64_t size, int64_t devices, std::string_view scaling) {
  return scaling == "weak" ? size / std::max<int64_t>(devices, 1) : size;
}

}  // namespace amdahl

#include "sensor/report/crossover.h"

#include <fmt/format.h>

#include <iterator>

#include "amdahl/error.h"
#include "stats/compare.h"

namespace amdahl {

std::optional<Crossover> crossover_of(const std::map<int64_t, SpeedupPoint>& sizes, const std::string& unit) {
  std::map<int64_t, bool> recommended;
  for (const auto& [size, point] : sizes) recommended[size] = recommend(point.ci) == Recommendation::multi_device;
  const std::optional<SizeCrossover> from = recommended_from(recommended);
  if (!from) return std::nullopt;
  Crossover crossover{{}, unit, 0, *from, sizes.size()};
  const auto first = sizes.find(from->from);
  crossover.at_jump = first != sizes.begin() && std::next(first) != sizes.end() &&
                      is_jump(std::prev(first)->second, first->second, std::next(first)->second);
  return crossover;
}

std::string clearly_faster() { return fmt::format("faster by {:.0f} % or more", 100 * (kMultiBeneficial - 1)); }

std::string crossover_place(const Crossover& crossover) {
  const SizeCrossover& sizes = crossover.sizes;
  const std::string size = fmt::format("{} {}", with_thousands(sizes.from), crossover.unit);
  if (crossover.num_sizes == 1) return fmt::format("at {}, the only size measured", size);
  if (sizes.below == 0)
    return fmt::format("at every size measured, {} to {} {}", with_thousands(sizes.from), with_thousands(sizes.largest),
                       crossover.unit);
  const std::string below =
      with_thousands(sizes.below) + (crossover.at_jump ? ": the time of one device jumps between them" : "");
  if (sizes.from == sizes.largest) return fmt::format("at {}, the largest size measured, not at {}", size, below);
  return fmt::format("from {} on, not at {}", size, below);
}

}  // namespace amdahl

#include "sensor/report/crossover.h"

#include <fmt/format.h>

#include "amdahl/error.h"

namespace amdahl {

std::optional<Crossover> crossover_of(const AheadBySize& sizes, const std::string& unit) {
  if (sizes.empty() || !sizes.rbegin()->second) return std::nullopt;
  Crossover from;
  from.unit = unit;
  from.largest = sizes.rbegin()->first;
  from.num_sizes = sizes.size();
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (!size->second) {
      from.below = size->first;
      break;
    }
    from.items = size->first;
  }
  return from;
}

std::string crossover_place(const Crossover& crossover) {
  const std::string size = fmt::format("{} {}", with_thousands(crossover.items), crossover.unit);
  if (crossover.num_sizes == 1) return fmt::format("at {}, the only size measured", size);
  if (crossover.below == 0)
    return fmt::format("at every size measured, {} to {} {}", with_thousands(crossover.items),
                       with_thousands(crossover.largest), crossover.unit);
  const std::string below = with_thousands(crossover.below);
  if (crossover.items == crossover.largest)
    return fmt::format("at {}, the largest size measured, not at {}", size, below);
  return fmt::format("from {} on, not at {}", size, below);
}

}  // namespace amdahl

// From which size on several devices are faster than one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace amdahl {

/// From that size on, `devices` devices are faster than one at every larger size that was measured, their intervals
/// apart.
struct Crossover {
  std::string group;  // operation and whatever else tells groups apart
  std::string unit;   // of a size: "points", "rows"
  int64_t devices = 0, items = 0;
  int64_t below = 0;     // the next smaller size measured, where they are not; 0: there is none
  int64_t largest = 0;   // size measured
  size_t num_sizes = 0;  // measured; of one size alone nothing is crossed
};

/// By size: whether one device is clearly slower.
using AheadBySize = std::map<int64_t, bool>;

/// Nothing where one is not slower at the largest size; group and devices are left for the caller.
std::optional<Crossover> crossover_of(const AheadBySize& sizes, const std::string& unit);

/// "from 64 rows on, not at 4", "at 1,024 rows, the largest size measured, not at 64", "at every size measured, 64 to
/// 1,024 rows", "at 64 rows, the only size measured".
std::string crossover_place(const Crossover& crossover);

}  // namespace amdahl

// The size from which several devices are faster than one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace amdahl {

/// At `items` and every larger measured size, `devices` devices are faster than one, with disjoint intervals.
struct Crossover {
  std::string group;  // operation and further fields that distinguish groups
  std::string unit;   // unit of sizes: "points", "rows"
  int64_t devices = 0, items = 0;
  int64_t below = 0;     // next smaller measured size, where they are not faster; 0: none
  int64_t largest = 0;   // largest measured size
  size_t num_sizes = 0;  // number of measured sizes; with one there is no crossover
};

/// Size -> whether one device is significantly slower.
using AheadBySize = std::map<int64_t, bool>;

/// nullopt when one device is not slower at the largest size; the caller sets group and devices.
std::optional<Crossover> crossover_of(const AheadBySize& sizes, const std::string& unit);

/// "from 64 rows on, not at 4", "at 1,024 rows, the largest size measured, not at 64", "at every size measured, 64 to
/// 1,024 rows", "at 64 rows, the only size measured".
std::string crossover_place(const Crossover& crossover);

}  // namespace amdahl

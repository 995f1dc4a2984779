// The size from which several devices pay, by the rule of `recommended_from`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "amdahl/summary.h"
#include "report/common/break_even.h"

namespace amdahl {

/// Where `devices` devices are recommended.
struct Crossover {
  std::string group;  // operation and further fields that distinguish groups
  std::string unit;   // unit of sizes: "points", "rows"
  int64_t devices = 0;
  SizeCrossover sizes;
  size_t num_sizes = 0;  // number of measured sizes; with one there is no crossover
  bool at_jump = false;  // between `sizes.below` and `sizes.from` the time of one device jumps
};

/// nullopt when several devices are not recommended at the largest size; the caller sets group and devices.
std::optional<Crossover> crossover_of(const std::map<int64_t, SpeedupPoint>& sizes, const std::string& unit);

/// "faster by 10 % or more", which `recommend` asks of the lower end of the interval.
std::string clearly_faster();
/// "from 64 rows on, not at 4", "at 1,024 rows, the largest size measured, not at 64", "at every size measured, 64 to
/// 1,024 rows", "at 64 rows, the only size measured".
std::string crossover_place(const Crossover& crossover);

}  // namespace amdahl

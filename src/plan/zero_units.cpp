#include "plan/zero_units.h"

#include <algorithm>

namespace amdahl {

int zero_stage(std::string_view strategy) {
  constexpr std::string_view kPrefix = "zero";
  return strategy.starts_with(kPrefix) ? strategy.back() - '0' : 0;
}

UnitParts divide_unit(int64_t floats, int num_ranks) {
  constexpr int64_t kLine = 64;  // floats; units begin and end at multiples of it
  const int64_t part = floats / (kLine * num_ranks) * kLine;
  return {floats - num_ranks * part, part};
}

int64_t held_floats(const std::vector<UnitSize>& units, int num_ranks) {
  int64_t floats = 0;
  for (const UnitSize& unit : units) floats += divide_unit(unit.floats, num_ranks).held();
  return floats;
}

StagingPlan plan_staging(const std::vector<UnitSize>& units, int slots) {
  StagingPlan plan;
  std::vector<int64_t> sizes(static_cast<size_t>(slots), 0);
  int next = 0;
  for (const UnitSize& unit : units) {
    plan.slot.push_back(unit.is_pinned ? static_cast<int>(sizes.size()) : next++ % slots);
    if (unit.is_pinned)
      sizes.push_back(unit.floats);
    else
      sizes[static_cast<size_t>(plan.slot.back())] =
          std::max(sizes[static_cast<size_t>(plan.slot.back())], unit.floats);
  }
  std::vector<int64_t> first{0};
  for (const int64_t size : sizes) first.push_back(first.back() + size);
  for (const int slot : plan.slot) plan.begin.push_back(first[static_cast<size_t>(slot)]);
  plan.num_slots = static_cast<int>(sizes.size());
  plan.floats = first.back();
  return plan;
}

StagingPlan plan_gradient_staging(std::vector<UnitSize> units, bool has_dense_layers, bool held_whole) {
  if (!held_whole) return plan_staging(units, gradient_slots(has_dense_layers));
  for (UnitSize& unit : units) unit.is_pinned = true;
  return plan_staging(units, 0);
}

}  // namespace amdahl

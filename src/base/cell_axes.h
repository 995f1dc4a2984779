// Conversion of a study cell's key to the axes of its records.
#pragma once

#include <map>
#include <string>

#include "amdahl/summary.h"

namespace amdahl {

std::map<std::string, AxisValue> axes_of(const CellKey& key);

/// Adds the axes of a plan to those of a record.
void add_plan_axes(const PlanOptions& options, std::map<std::string, AxisValue>& axes);

/// A plan from its axes: `number(field)` and `flag(field)` read one value each.
template <class Number, class Flag>
PlanOptions plan_of_axes(const Number& number, const Flag& flag) {
  PlanOptions options;
  for (const PlanField& field : plan_fields()) {
    if (!field.is_axis) continue;
    if (const auto* member = std::get_if<int64_t PlanOptions::*>(&field.member))
      options.** member = number(field);
    else
      options.*std::get<bool PlanOptions::*>(field.member) = flag(field);
  }
  return options;
}

}  // namespace amdahl

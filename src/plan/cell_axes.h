// Conversion of a study cell's key to the axes of its records.
#pragma once

#include <map>
#include <string>

#include "amdahl/summary.h"

namespace amdahl {

std::map<std::string, AxisValue> axes_of(const CellKey& key);

/// Adds the axes of a plan to those of a record.
void add_plan_axes(const PlanOptions& options, std::map<std::string, AxisValue>& axes);

/// Readers of axes: of a number, a flag, a field's text, and whether the axis is there.
template <class Number, class Flag, class Choice, class Has>
struct AxisReaders {
  Number number;
  Flag flag;
  Choice choice;
  Has has;
};
template <class Number, class Flag, class Choice, class Has>
AxisReaders(Number, Flag, Choice, Has) -> AxisReaders<Number, Flag, Choice, Has>;

/// The value of a text of the field. Error{cause} for another text, which `origin` begins.
int64_t choice_of(const PlanField& field, const std::string& text, Cause cause, const std::string& origin);

/// A plan from its axes.
template <class Number, class Flag, class Choice, class Has>
PlanOptions plan_of_axes(const AxisReaders<Number, Flag, Choice, Has>& read) {
  PlanOptions options;
  for (const PlanField& field : plan_fields()) {
    if (!field.is_axis || (field.is_omitted && !read.has(field))) continue;
    const auto* member = std::get_if<int64_t PlanOptions::*>(&field.member);
    if (!member)
      options.*std::get<bool PlanOptions::*>(field.member) = read.flag(field);
    else
      options.** member = field.is_text() ? read.choice(field) : read.number(field);
  }
  return options;
}

}  // namespace amdahl

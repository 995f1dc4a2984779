#include "plan/cell_axes.h"

#include <fmt/format.h>

namespace amdahl {

std::map<std::string, AxisValue> axes_of(const CellKey& key) {
  std::map<std::string, AxisValue> axes{{"model", key.model},
                                        {"num_parameters", key.num_parameters},
                                        {"scaling", key.scaling},
                                        {"math", key.math},
                                        {"global_batch", key.global_batch},
                                        {"devices", key.devices},
                                        {"strategy", key.strategy},
                                        {"launch", key.launch},
                                        {"backend", key.backend},
                                        {"optimizer", key.optimizer},
                                        {"data", key.data}};
  add_plan_axes(key.plan, axes);
  return axes;
}

void add_plan_axes(const PlanOptions& options, std::map<std::string, AxisValue>& axes) {
  for (const PlanField& field : plan_fields()) {
    if (!field.is_axis || (field.is_omitted && text_of(field, options) == text_of(field, {}))) continue;
    AxisValue& value = axes[std::string(field.name)];
    if (field.is_text())
      value = text_of(field, options);
    else if (const auto* member = std::get_if<int64_t PlanOptions::*>(&field.member))
      value = options.**member;
    else
      value = options.*std::get<bool PlanOptions::*>(field.member);
  }
}

int64_t choice_of(const PlanField& field, const std::string& text, Cause cause, const std::string& origin) {
  if (field.parse) try {
      return field.parse(text);
    } catch (const Error& error) {
      throw Error(cause, origin + error.what());
    }
  std::string names;
  for (size_t i = 0; i < field.choices.size(); ++i) {
    if (field.choices[i] == text) return static_cast<int64_t>(i);
    names += fmt::format("{}{}", i == 0 ? "" : ", ", field.choices[i]);
  }
  throw Error(cause, fmt::format("{}{} is \"{}\"", origin, field.name, text), names);
}

}  // namespace amdahl

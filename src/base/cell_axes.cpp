#include "base/cell_axes.h"

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
    if (!field.is_axis) continue;
    AxisValue& value = axes[std::string(field.name)];
    if (const auto* member = std::get_if<int64_t PlanOptions::*>(&field.member))
      value = options.**member;
    else
      value = options.*std::get<bool PlanOptions::*>(field.member);
  }
}

}  // namespace amdahl

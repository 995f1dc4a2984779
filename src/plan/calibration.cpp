#include "amdahl/planner.h"

namespace amdahl {

std::string_view to_string(ConstantOrigin origin) {
  switch (origin) {
    case ConstantOrigin::measured:
      return "measured";
    case ConstantOrigin::fitted:
      return "fitted";
    case ConstantOrigin::assumed:
      break;
  }
  return "assumed";
}

const CalibrationConstant* Calibration::find(std::string_view name) const {
  for (const CalibrationConstant& constant : constants)
    if (constant.name == name) return &constant;
  return nullptr;
}

}  // namespace amdahl

#include "amdahl/planner.h"

#include <algorithm>
#include <iterator>

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

bool Calibration::is_assumed() const {
  constexpr std::string_view kRates[] = {"gemm_tflops", "memory_gbps", "dp_gbps"};  // of products, passes, gradients
  return std::any_of(std::begin(kRates), std::end(kRates), [&](std::string_view name) {
    const CalibrationConstant* rate = find(name);
    return rate && rate->origin == ConstantOrigin::assumed;
  });
}

bool Calibration::is_unmeasured() const {
  return std::all_of(constants.begin(), constants.end(),
                     [](const CalibrationConstant& constant) { return constant.origin == ConstantOrigin::assumed; });
}

}  // namespace amdahl

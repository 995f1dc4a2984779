// Calibration: the measured constants of a machine and program from which step times are predicted. Plain data.
//
// Example:
//   for (const amdahl::CalibrationConstant& constant : calibration.constants)
//     std::printf("%s = %g %s\n", constant.name.c_str(), constant.value, constant.unit.c_str());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/record.h"

namespace amdahl {

/// Where a constant comes from. `fitted`: to measured steps; `assumed`: from a catalogue or a default.
enum class ConstantOrigin { measured, fitted, assumed };
/// "measured", "fitted", "assumed".
AMDAHL_API std::string_view to_string(ConstantOrigin origin);

struct CalibrationConstant {
  std::string name;  // a row of src/planner/rates.cpp: "gemm_tflops"
  double value = 0;
  std::string unit;
  ConstantOrigin origin = ConstantOrigin::assumed;
  std::string source;  // how it was measured, or where the assumption comes from
};

struct AMDAHL_API Calibration {
  std::string host;         // where it was measured; empty: not on a host of ours
  std::string device_kind;  // "cuda", "cpu-virtual"
  std::string device_name;
  std::string math;                 // "fp32", "tf32", "bf16"
  std::string software = "amdahl";  // program whose kernels were counted
  int64_t memory_bytes = 0;         // of a device; 0: unknown
  double seconds = 0;               // that measuring took
  std::vector<CalibrationConstant> constants;
  /// Relative standard deviations of the account's parts are multiplied by it, so that 95 % of held-out steps lie in
  /// the interval.
  double interval_factor = 1;

  const CalibrationConstant* find(std::string_view name) const;
  /// Whether a rate that every prediction rests on is assumed: predictions have a range, not a confidence interval.
  bool is_assumed() const;
  /// Whether no constant comes from a measurement.
  bool is_unmeasured() const;
};

}  // namespace amdahl

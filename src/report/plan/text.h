// Tables of the planner for a terminal, of at most `width` columns (0: any).
#pragma once

#include <string>

#include "amdahl/planner.h"

namespace amdahl {

std::string calibration_outcome_text(const CalibrationOutcome& outcome, size_t width = 0);
std::string thresholds_text(const ThresholdsOutcome& outcome, size_t width = 0);
/// A table of the pairs that `plan --verify` stored.
std::string verification_records_text(const std::vector<Record>& records);
/// One line: from which numbers of parameters on several devices pay.
std::string thresholds_line_text(const std::vector<SizeThreshold>& thresholds, const Calibration& calibration);
std::string verification_text(const VerifyOutcome& outcome, size_t width = 0);

}  // namespace amdahl

// Tables of the planner for a terminal, of at most `width` columns (0: any).
#pragma once

#include <string>

#include "amdahl/planner.h"

namespace amdahl {

std::string thresholds_text(const ThresholdsOutcome& outcome, size_t width = 0);
/// One line: from which numbers of parameters on several devices pay.
std::string thresholds_line_text(const std::vector<SizeThreshold>& thresholds, const Calibration& calibration);

}  // namespace amdahl

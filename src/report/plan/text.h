// Tables of the planner for a terminal.
#pragma once

#include <string>

#include "amdahl/planner.h"

namespace amdahl {

std::string plan_outcome_text(const PlanOutcome& outcome);
std::string calibration_outcome_text(const CalibrationOutcome& outcome);
std::string thresholds_text(const ThresholdsOutcome& outcome);
std::string verification_text(const VerifyOutcome& outcome);

}  // namespace amdahl

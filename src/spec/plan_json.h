// JSON of the planner's nouns.
#pragma once

#include <string>
#include <string_view>

#include "amdahl/planner.h"

namespace amdahl {

/// One calibration, an element of `calibrations` in docs/schema/machine.schema.json.
std::string calibration_to_json(const Calibration& calibration);
/// Format: docs/schema/plan.schema.json; write-only.
std::string plan_outcome_to_json(const PlanOutcome& outcome);
/// {"version": 1, "calibration": {...}, "steps": [...]}; write-only.
std::string calibration_outcome_to_json(const CalibrationOutcome& outcome);
/// {"version": 1, "thresholds": [...], "calibration": {...}}; write-only.
std::string thresholds_to_json(const ThresholdsOutcome& outcome);
/// Format: docs/schema/plan-verification.schema.json; write-only.
std::string verification_to_json(const VerifyOutcome& outcome);
/// Format: docs/schema/plan-validation.schema.json; write-only.
std::string plan_validation_to_json(const PlanValidation& validation);

}  // namespace amdahl

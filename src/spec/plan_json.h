// JSON of the planner's nouns.
#pragma once

#include <string>
#include <string_view>

#include "amdahl/calibration.h"
#include "amdahl/planner.h"

namespace amdahl {

/// Format: docs/schema/plan-validation.schema.json; write-only.
std::string plan_validation_to_json(const PlanValidation& validation);

}  // namespace amdahl

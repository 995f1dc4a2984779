// The planner: predicts the step of every plan on a calibrated machine, ranks them, and says how sure it is.
//
// Example:
//   amdahl::PlannerValidationConfig config;
//   config.iterations = "tests/data/planner/measured_a100.csv";
//   std::puts(to_text(amdahl::run_planner_validation(config)).c_str());
#pragma once

#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/plan_prediction.h"
#include "amdahl/plan_validation.h"

namespace amdahl {

struct PlannerValidationConfig {
  std::string iterations;  // CSV of measured iterations that constants are fitted to
  std::string also;        // CSV of further ones, which take part in no fit; empty: none
  bool sizes = true;       // also leaves out sizes, not only layouts
};
/// Fits the planner's constants to measured iterations of GPT models and predicts them, each layout and size left out
/// in turn. Error{usage} for files that cannot be read, Error{data_corrupt} that names line and column for others.
AMDAHL_API PlanValidation run_planner_validation(const PlannerValidationConfig& config);
AMDAHL_API std::string to_text(const PlanValidation& validation);
/// JSON, schema docs/schema/plan-validation.schema.json.
AMDAHL_API std::string to_json(const PlanValidation& validation);

}  // namespace amdahl

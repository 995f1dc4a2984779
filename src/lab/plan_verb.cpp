// The planner's verbs.
#include "amdahl/planner.h"
#include "files/whole_file.h"
#include "planner/validate.h"
#include "spec/plan_json.h"

namespace amdahl {

PlanValidation run_planner_validation(const PlannerValidationConfig& config) {
  const auto rows_in = [](const std::string& path) {
    return path.empty() ? std::vector<MeasuredIteration>{} : parse_iterations(read_file(path, Cause::usage), path);
  };
  if (config.iterations.empty()) throw Error(Cause::usage, "`iterations` is empty", "a CSV of measured iterations");
  return validate_planner(rows_in(config.iterations), rows_in(config.also), config.sizes);
}

std::string to_json(const PlanValidation& validation) { return plan_validation_to_json(validation); }

}  // namespace amdahl

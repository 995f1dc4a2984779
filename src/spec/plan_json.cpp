// Serialises what the planner found; schemas: docs/schema/plan-validation.schema.json.
#include "spec/plan_json.h"

#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

json calibration_json(const Calibration& calibration) {
  json constants = json::array();
  for (const CalibrationConstant& c : calibration.constants)
    constants.push_back({{"name", c.name},
                         {"value", finite(c.value, c.name)},
                         {"unit", c.unit},
                         {"origin", to_string(c.origin)},
                         {"source", c.source}});
  json object{{"device_kind", calibration.device_kind},
              {"math", calibration.math},
              {"software", calibration.software},
              {"interval_factor", finite(calibration.interval_factor, "interval_factor")},
              {"constants", constants}};
  if (!calibration.host.empty()) object["host"] = calibration.host;
  if (!calibration.device_name.empty()) object["device_name"] = calibration.device_name;
  if (calibration.memory_bytes > 0) object["memory_bytes"] = calibration.memory_bytes;
  if (calibration.seconds > 0) object["seconds"] = finite(calibration.seconds, "seconds");
  return object;
}

json error_json(const ErrorSummary& s) {
  return {{"name", s.name},
          {"rows", s.rows},
          {"mean", finite(s.mean, "an error")},
          {"p95", finite(s.p95, "an error")},
          {"worst", finite(s.worst, "an error")},
          {"bias", finite(s.bias, "an error")}};
}

json errors_json(const std::vector<ErrorSummary>& all) {
  json array = json::array();
  for (const ErrorSummary& one : all) array.push_back(error_json(one));
  return array;
}

}  // namespace

std::string plan_validation_to_json(const PlanValidation& v) {
  json object{{"version", kSchemaVersion},
              {"rows", v.rows},
              {"fitted_constants", v.fitted_constants},
              {"in_sample", error_json(v.in_sample)},
              {"left_out_layout", error_json(v.left_out_layout)},
              {"layouts", errors_json(v.layouts)},
              {"sizes", errors_json(v.sizes)},
              {"baselines", errors_json(v.baselines)},
              {"rank_by_replica_batch", finite(v.rank_by_replica_batch, "a correlation")},
              {"rank_by_global_batch", finite(v.rank_by_global_batch, "a correlation")},
              {"rank_worst", finite(v.rank_worst, "a correlation")},
              {"coverage", finite(v.coverage, "a coverage")},
              {"bound_to_simulation", finite(v.bound_to_simulation, "a difference")},
              {"calibration", calibration_json(v.calibration)}};
  if (v.also.rows > 0) {
    object["also"] = error_json(v.also);
    object["also_coverage"] = finite(v.also_coverage, "a coverage");
  }
  return dump(object, 2);
}

}  // namespace amdahl

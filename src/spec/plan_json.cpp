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

json account_json(const PlanAccount& a) {
  return {{"compute_us", finite(a.compute_us, "a part")},
          {"exposed_tp_us", finite(a.exposed_tp_us, "a part")},
          {"exposed_pp_us", finite(a.exposed_pp_us, "a part")},
          {"exposed_dp_us", finite(a.exposed_dp_us, "a part")},
          {"bubble_us", finite(a.bubble_us, "a part")},
          {"optimizer_us", finite(a.optimizer_us, "a part")},
          {"gaps_us", finite(a.gaps_us, "a part")},
          {"hidden_dp_us", finite(a.hidden_dp_us, "a part")}};
}

json parts_json(const std::vector<PlanPart>& parts) {
  json array = json::array();
  for (const PlanPart& part : parts)
    array.push_back({{"name", part.name},
                     {"predicted_us", finite(part.predicted_us, "a part")},
                     {"measured_us", finite(part.measured_us, "a part")}});
  return array;
}

json plan_json(const RankedPlan& plan) {
  const PlanMemory& memory = plan.step.memory;
  json object{{"plan", plan.text},
              {"devices", plan.step.plan.num_devices()},
              {"step_us", finite(plan.step.step_us, "a predicted step")},
              {"interval", interval_json(plan.step.interval)},
              {"rows_per_second", finite(plan.step.rows_per_second, "a rate")},
              {"account", account_json(plan.step.account)},
              {"memory_bytes",
               {{"parameters", memory.parameters},
                {"gradients", memory.gradients},
                {"optimizer", memory.optimizer},
                {"activations", memory.activations},
                {"workspace", memory.workspace},
                {"total", memory.total()}}}};
  if (plan.hourly_price > 0) {
    object["hourly_price"] = finite(plan.hourly_price, "a price");
    object["price_per_million_rows"] = finite(plan.price_per_million_rows, "a price");
  }
  if (plan.joule_per_row > 0) object["joule_per_row"] = finite(plan.joule_per_row, "an energy");
  return object;
}

json answer_json(const DevicesAnswer& answer) {
  json object{{"devices", answer.devices},
              {"best", answer.best},
              {"step_us", finite(answer.step_us, "a predicted step")},
              {"interval", interval_json(answer.interval)},
              {"speedup", finite(answer.speedup, "a speedup")},
              {"speedup_interval", interval_json(answer.speedup_interval)},
              {"verdict", answer.verdict}};
  if (answer.price_ratio > 0) object["price_ratio"] = finite(answer.price_ratio, "a ratio of prices");
  return object;
}

json term_json(const ExplainedTerm& term) {
  return {{"name", term.name},
          {"us", finite(term.us, "a term")},
          {"formula", term.formula},
          {"inputs", term.inputs},
          {"source", term.source}};
}

}  // namespace

std::string calibration_to_json(const Calibration& calibration) { return dump(calibration_json(calibration), -1); }

std::string plan_outcome_to_json(const PlanOutcome& outcome) {
  json ranking = json::array(), devices = json::array(), terms = json::array();
  for (const RankedPlan& plan : outcome.ranking) ranking.push_back(plan_json(plan));
  for (const DevicesAnswer& answer : outcome.by_devices) devices.push_back(answer_json(answer));
  for (const ExplainedTerm& term : outcome.terms) terms.push_back(term_json(term));
  json object{{"version", kSchemaVersion},
              {"model", outcome.model.name},
              {"num_parameters", outcome.model.num_parameters()},
              {"global_batch", outcome.global_batch},
              {"most_devices", outcome.most_devices},
              {"origin", origin_name(Origin::modelled)},
              {"num_plans", outcome.num_plans},
              {"num_too_large", outcome.num_too_large},
              {"ranking", ranking},
              {"why", outcome.why},
              {"by_devices", devices},
              {"calibration", calibration_json(outcome.calibration)},
              {"notes", outcome.notes}};
  if (!outcome.terms.empty()) {
    object["explained"] = plan_json(outcome.explained);
    object["terms"] = terms;
  }
  if (!outcome.currency.empty()) object["currency"] = outcome.currency;
  return dump(object, 2);
}

std::string calibration_outcome_to_json(const CalibrationOutcome& outcome) {
  json steps = json::array();
  for (const ProbedStep& step : outcome.steps)
    steps.push_back({{"model", step.model},
                     {"global_batch", step.global_batch},
                     {"plan", step.plan},
                     {"parts", parts_json(step.parts)},
                     {"measured_us", finite(step.measured_us, "a measured step")},
                     {"predicted_us", finite(step.predicted_us, "a predicted step")},
                     {"interval", interval_json(step.interval)}});
  return dump({{"version", kSchemaVersion},
               {"calibration", calibration_json(outcome.calibration)},
               {"steps", steps},
               {"in_sample", error_json(outcome.in_sample)},
               {"left_out_model", error_json(outcome.left_out_model)},
               {"coverage", finite(outcome.coverage, "a coverage")}},
              2);
}

std::string thresholds_to_json(const ThresholdsOutcome& outcome) {
  json thresholds = json::array();
  for (const SizeThreshold& one : outcome.thresholds) {
    json object{{"global_batch", one.global_batch}, {"devices", one.devices}};
    if (one.parameters > 0) object["parameters"] = one.parameters;
    if (one.certain_parameters > 0) object["certain_parameters"] = one.certain_parameters;
    thresholds.push_back(object);
  }
  return dump({{"version", kSchemaVersion},
               {"origin", origin_name(Origin::modelled)},
               {"thresholds", thresholds},
               {"calibration", calibration_json(outcome.calibration)}},
              2);
}

std::string verification_to_json(const VerifyOutcome& outcome) {
  json plans = json::array();
  for (const VerifiedPlan& plan : outcome.plans) {
    plans.push_back({{"prediction", plan_json(plan.plan)},
                     {"random", plan.random},
                     {"measured_us", finite(plan.measured_us, "a measured step")},
                     {"sd_us", finite(plan.sd_us, "a spread")},
                     {"runs", plan.runs},
                     {"memory_bytes", finite(plan.memory_bytes, "memory")},
                     {"modelled_bytes", finite(plan.modelled_bytes, "memory")},
                     {"inside", plan.inside},
                     {"parts", parts_json(plan.parts)}});
  }
  json terms = json::array();
  for (const TermError& term : outcome.terms)
    terms.push_back(
        {{"name", term.name}, {"mean", finite(term.mean, "an error")}, {"bias", finite(term.bias, "an error")}});
  json object{{"version", kSchemaVersion},
              {"model", outcome.prediction.model.name},
              {"global_batch", outcome.prediction.global_batch},
              {"plans", plans},
              {"terms", terms},
              {"seconds", finite(outcome.seconds, "seconds")},
              {"corrected", outcome.corrected},
              {"notes", outcome.notes},
              {"median_error", finite(outcome.median_error, "an error")},
              {"loss_of_choice", finite(outcome.loss_of_choice, "a loss")}};
  if (outcome.refitted_error > 0) {
    object["refitted_error"] = finite(outcome.refitted_error, "an error");
    object["refitted"] = calibration_json(outcome.refitted);
  }
  if (!outcome.run_dir.empty()) object["run_dir"] = outcome.run_dir;
  return dump(object, 2);
}

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

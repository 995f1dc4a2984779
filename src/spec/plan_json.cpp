// Serialises what the planner found; schemas: docs/schema/plan-validation.schema.json.
#include "spec/plan_json.h"

#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {

using nlohmann::json;

template <class Visitor>
void visit_fields(Visitor& f, CalibrationConstant& c) {
  f("name", c.name), f("value", c.value), f("unit", c.unit), f("origin", c.origin), f("source", c.source);
}

template <class Visitor>
void visit_fields(Visitor& f, Calibration& c) {
  f("device_kind", c.device_kind), f("math", c.math), f("software", c.software);
  f("interval_factor", c.interval_factor), f("constants", c.constants);
  f.when(!c.host.empty(), "host", c.host);
  f.when(!c.device_name.empty(), "device_name", c.device_name);
  f.when(c.memory_bytes > 0, "memory_bytes", c.memory_bytes);
  f.when(c.seconds > 0, "seconds", c.seconds);
}

template <class Visitor>
void visit_fields(Visitor& f, ErrorSummary& s) {
  f("name", s.name), f("rows", s.rows), f("mean", s.mean), f("p95", s.p95), f("worst", s.worst), f("bias", s.bias);
}

template <class Visitor>
void visit_fields(Visitor& f, PlanAccount& a) {
  f("compute_us", a.compute_us), f("exposed_tp_us", a.exposed_tp_us), f("exposed_pp_us", a.exposed_pp_us);
  f("exposed_dp_us", a.exposed_dp_us), f("bubble_us", a.bubble_us), f("optimizer_us", a.optimizer_us);
  f("gaps_us", a.gaps_us), f("hidden_dp_us", a.hidden_dp_us);
}

template <class Visitor>
void visit_fields(Visitor& f, PlanPart& part) {
  f("name", part.name), f("predicted_us", part.predicted_us), f("measured_us", part.measured_us);
}

template <class Visitor>
void visit_fields(Visitor& f, PlanMemory& m) {
  f("parameters", m.parameters), f("gradients", m.gradients), f("optimizer", m.optimizer);
  f("activations", m.activations), f("workspace", m.workspace), f.derived("total", m.total());
}

template <class Visitor>
void visit_fields(Visitor& f, RankedPlan& plan) {
  f("plan", plan.text), f.derived("devices", plan.step.plan.num_devices());
  f("step_us", plan.step.step_us), f("interval", plan.step.interval);
  f("rows_per_second", plan.step.rows_per_second), f("account", plan.step.account);
  f("memory_bytes", plan.step.memory);
  f.when(plan.hourly_price > 0, "hourly_price", plan.hourly_price);
  f.when(plan.hourly_price > 0, "price_per_million_rows", plan.price_per_million_rows);
  f.when(plan.joule_per_row > 0, "joule_per_row", plan.joule_per_row);
}

template <class Visitor>
void visit_fields(Visitor& f, DevicesAnswer& a) {
  f("devices", a.devices), f("best", a.best), f("step_us", a.step_us), f("interval", a.interval);
  f("speedup", a.speedup), f("speedup_interval", a.speedup_interval), f("verdict", a.verdict);
  f.when(a.price_ratio > 0, "price_ratio", a.price_ratio);
}

template <class Visitor>
void visit_fields(Visitor& f, ExplainedTerm& term) {
  f("name", term.name), f("us", term.us), f("formula", term.formula), f("inputs", term.inputs);
  f("source", term.source);
}

template <class Visitor>
void visit_fields(Visitor& f, PlanOutcome& o) {
  f.derived("model", o.model.name), f.derived("num_parameters", o.model.num_parameters());
  f("global_batch", o.global_batch), f("most_devices", o.most_devices), f.derived("origin", Origin::modelled);
  f("num_plans", o.num_plans), f("num_too_large", o.num_too_large), f("ranking", o.ranking), f("why", o.why);
  f("by_devices", o.by_devices), f("calibration", o.calibration), f("notes", o.notes);
  f.when(!o.terms.empty(), "explained", o.explained);
  f.when(!o.terms.empty(), "terms", o.terms);
  f.when(!o.currency.empty(), "currency", o.currency);
}

template <class Visitor>
void visit_fields(Visitor& f, ProbedStep& step) {
  f("model", step.model), f("global_batch", step.global_batch), f("plan", step.plan), f("parts", step.parts);
  f("measured_us", step.measured_us), f("predicted_us", step.predicted_us), f("interval", step.interval);
}

template <class Visitor>
void visit_fields(Visitor& f, CalibrationOutcome& o) {
  f("calibration", o.calibration), f("steps", o.steps), f("in_sample", o.in_sample);
  f("left_out_model", o.left_out_model), f("coverage", o.coverage);
}

template <class Visitor>
void visit_fields(Visitor& f, SizeThreshold& one) {
  f("global_batch", one.global_batch), f("devices", one.devices);
  f.when(one.parameters > 0, "parameters", one.parameters);
}

template <class Visitor>
void visit_fields(Visitor& f, ThresholdsOutcome& o) {
  f.derived("origin", Origin::modelled), f("thresholds", o.thresholds), f("calibration", o.calibration);
}

template <class Visitor>
void visit_fields(Visitor& f, VerifiedPlan& plan) {
  f("prediction", plan.plan), f("random", plan.random), f("measured_us", plan.measured_us), f("sd_us", plan.sd_us);
  f("runs", plan.runs), f("memory_bytes", plan.memory_bytes), f("modelled_bytes", plan.modelled_bytes);
  f("inside", plan.inside), f("parts", plan.parts);
}

template <class Visitor>
void visit_fields(Visitor& f, TermError& term) {
  f("name", term.name), f("mean", term.mean), f("bias", term.bias);
}

template <class Visitor>
void visit_fields(Visitor& f, VerifyOutcome& o) {
  f.derived("model", o.prediction.model.name), f.derived("global_batch", o.prediction.global_batch);
  f("plans", o.plans), f("terms", o.terms), f("seconds", o.seconds), f("corrected", o.corrected);
  f("notes", o.notes), f("median_error", o.median_error), f("loss_of_choice", o.loss_of_choice);
  f.when(o.refitted_error > 0, "refitted_error", o.refitted_error);
  f.when(o.refitted_error > 0, "refitted", o.refitted);
  f.when(!o.run_dir.empty(), "run_dir", o.run_dir);
}

template <class Visitor>
void visit_fields(Visitor& f, PlanValidation& v) {
  f("rows", v.rows), f("fitted_constants", v.fitted_constants), f("in_sample", v.in_sample);
  f.when(!v.recompute.empty(), "recompute", v.recompute);
  f("left_out_layout", v.left_out_layout), f("layouts", v.layouts), f("sizes", v.sizes), f("baselines", v.baselines);
  f("rank_by_replica_batch", v.rank_by_replica_batch), f("rank_by_global_batch", v.rank_by_global_batch);
  f("rank_worst", v.rank_worst), f("coverage", v.coverage), f("bound_to_simulation", v.bound_to_simulation);
  f("calibration", v.calibration);
  f.when(v.also.rows > 0, "also", v.also);
  f.when(v.also.rows > 0, "also_coverage", v.also_coverage);
}

std::string calibration_to_json(const Calibration& calibration) { return dump(written(calibration), -1); }

std::string plan_outcome_to_json(const PlanOutcome& outcome) { return versioned(outcome); }
std::string calibration_outcome_to_json(const CalibrationOutcome& outcome) { return versioned(outcome); }
std::string thresholds_to_json(const ThresholdsOutcome& outcome) { return versioned(outcome); }
std::string verification_to_json(const VerifyOutcome& outcome) { return versioned(outcome); }
std::string plan_validation_to_json(const PlanValidation& validation) { return versioned(validation); }

}  // namespace amdahl

// Writes summary.json. The reader is in summary_reader.cpp, the schema is docs/schema/summary.schema.json.
#include <nlohmann/json.hpp>

#include "base/cell_axes.h"
#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

json account_json(const StepAccount& a) {
  const auto us = [](double value) { return finite(value, "a step account"); };
  return {{"n", a.n},
          {"measured_us", us(a.measured_us)},
          {"step_us", us(a.step_us)},
          {"launch_floor_us", us(a.launch_floor_us)},
          {"forward_us", us(a.forward_us)},
          {"backward_us", us(a.backward_us)},
          {"compute_us", us(a.compute_us)},
          {"exposed_communication_us", us(a.exposed_communication_us)},
          {"waiting_us", us(a.waiting_us)},
          {"launch_gaps_us", us(a.launch_gaps_us)},
          {"input_us", us(a.input_us)},
          {"optimizer_us", us(a.optimizer_us)},
          {"total_communication_us", us(a.total_communication_us)},
          {"comm_bytes", us(a.comm_bytes)},
          {"launch_kernels", us(a.launch_kernels)},
          {"noise_us", us(a.noise_us)},
          {"ratio", us(a.ratio())},
          {"method", a.by_differences ? "differences" : "stamps"},
          {"fused_update", a.fused_update}};
}

void put(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = finite(*value, name);
}

json cell_json(const StudyCell& cell) {
  json object{{"key", key_json(cell.key)},
              {"status", status_json(cell.status)},
              {"origin", origin_name(cell.origin)},
              {"steps", cell.steps},
              {"warmup", cell.warmup},
              {"num_failed", cell.num_failed},
              {"num_waived", cell.num_waived}};
  if (cell.step_time_us.n > 0) object["step_time_us"] = sample_summary_json(cell.step_time_us);
  if (cell.throughput.n > 0) object["throughput_samples_per_s"] = sample_summary_json(cell.throughput);
  put(object, "memory_peak_bytes", cell.memory_peak_bytes);
  put(object, "memory_modelled_bytes", cell.memory_modelled_bytes);
  put(object, "tokens_per_s", cell.tokens_per_s);
  put(object, "model_flops_per_s", cell.model_flops_per_s);
  put(object, "utilisation_percent", cell.utilisation_percent);
  put(object, "loss_first", cell.loss_first);
  put(object, "loss_last", cell.loss_last);
  put(object, "bubble_measured", cell.bubble_measured);
  put(object, "bubble_simulated", cell.bubble_simulated);
  put(object, "bubble_simulated_messages", cell.bubble_simulated_messages);
  put(object, "pp_message_us", cell.pp_message_us);
  if (!cell.share_rows.empty()) object["share_rows"] = finite_array(cell.share_rows, "share_rows");
  put(object, "speed_bound_samples_per_s", cell.speed_bound);
  if (cell.account) object["account"] = account_json(*cell.account);
  return object;
}

json comparison_json(const StudyComparison& c) {
  json object{{"single", key_json(c.single)},
              {"multi", key_json(c.multi)},
              {"speedup", pair_test_json(c.test)},
              {"efficiency", finite(c.efficiency, "an efficiency")},
              {"recommendation", to_string(c.recommendation)},
              {"more_runs", c.more_runs}};
  if (c.efficiency_ci) object["efficiency_ci"] = interval_json(*c.efficiency_ci);
  return object;
}

json average_json(const AverageSpeedup& a) {
  json object{{"model", a.model},
              {"scaling", a.scaling},
              {"math", a.math},
              {"strategy", a.strategy},
              {"launch", a.launch},
              {"devices", a.devices},
              {"num_batches", a.num_batches},
              {"geometric_mean", finite(a.geometric_mean, "an average speedup")},
              {"recommendation", to_string(a.recommendation)},
              {"batches_disagree", a.batches_disagree}};
  if (a.ci) object["ci"] = interval_json(*a.ci);
  return object;
}

}  // namespace

json key_json(const CellKey& key) { return axes_json(axes_of(key)); }

json sample_summary_json(const SampleSummary& s) {
  const auto number = [](double value) { return finite(value, "a sample summary"); };
  json object{{"n", s.n},
              {"mean", number(s.mean)},
              {"sd", number(s.sd)},
              {"median", number(s.median)},
              {"mad", number(s.mad)},
              {"minimum", number(s.minimum)},
              {"maximum", number(s.maximum)},
              {"num_outliers", s.num_outliers},
              {"mean_without_outliers", number(s.mean_without_outliers)},
              {"sd_without_outliers", number(s.sd_without_outliers)}};
  if (s.ci) object["ci"] = interval_json(*s.ci);
  if (s.median_ci) object["median_ci"] = interval_json(*s.median_ci);
  if (s.num_processes > 1) {
    object["num_processes"] = s.num_processes;
    object["process_median"] = number(s.process_median);
    object["process_sd"] = number(s.process_sd);
  }
  if (s.ci_without_outliers) object["ci_without_outliers"] = interval_json(*s.ci_without_outliers);
  return object;
}

json pair_test_json(const PairTest& t) {
  const auto number = [](double value) { return finite(value, "a pair test"); };
  json object{{"ratio", number(t.ratio)},        {"n_first", t.n_first},       {"n_second", t.n_second},
              {"p_welch", number(t.p_welch)},    {"p_holm", number(t.p_holm)}, {"p_same", number(t.p_same)},
              {"verdict", to_string(t.verdict)}, {"more_runs", t.more_runs},   {"level", to_string(t.level)}};
  if (t.processes_first > 1 || t.processes_second > 1) {
    object["processes_first"] = t.processes_first;
    object["processes_second"] = t.processes_second;
  }
  if (t.ci) object["ci"] = interval_json(*t.ci);
  if (t.p_mann_whitney) object["p_mann_whitney"] = number(*t.p_mann_whitney);
  return object;
}

std::string summary_to_json(const StudySummary& summary) {
  json cells = json::array(), comparisons = json::array(), averages = json::array(), provenance = json::array(),
       serial = json::array();
  for (const StudyCell& cell : summary.cells) cells.push_back(cell_json(cell));
  for (const StudyComparison& c : summary.comparisons) comparisons.push_back(comparison_json(c));
  for (const AverageSpeedup& a : summary.averages) averages.push_back(average_json(a));
  for (const SerialFraction& f : summary.serial_fractions) serial.push_back(serial_fraction_json(f));
  for (const Provenance& p : summary.provenance) provenance.push_back(provenance_json(p));
  json document{{"version", kSchemaVersion},
                {"device_kind", summary.device_kind},
                {"conclusion", summary.conclusion},
                {"cells", cells},
                {"comparisons", comparisons},
                {"averages", averages},
                {"serial_fractions", serial},
                {"provenance", provenance},
                {"notes", summary.notes}};
  if (summary.one_device) document["one_device"] = one_device_json(*summary.one_device);
  return dump(document, 2);
}

}  // namespace amdahl

// Reading summary.json.
#include <fmt/format.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/cell_axes.h"
#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

StepAccount read_account(const Fields& f) {
  // Limits of accepted values: their sums and ratios are finite.
  constexpr double kLeast = 1e-9, kMost = 1e18;
  const auto part = [&](const char* name, double value) {
    if (!(std::abs(value) <= kMost)) f.fail(name, "is larger than a step can be");
    return value;
  };
  StepAccount a;
  a.n = f.integer("n");
  a.step_us = part("step_us", f.number("step_us"));
  a.measured_us = part("measured_us", f.number_or("measured_us", 0));
  a.launch_floor_us = part("launch_floor_us", f.number_or("launch_floor_us", 0));
  a.forward_us = part("forward_us", f.number("forward_us"));
  a.backward_us = part("backward_us", f.number("backward_us"));
  a.compute_us = part("compute_us", f.number("compute_us"));
  a.exposed_communication_us = part("exposed_communication_us", f.number("exposed_communication_us"));
  a.waiting_us = part("waiting_us", f.number("waiting_us"));
  a.launch_gaps_us = part("launch_gaps_us", f.number("launch_gaps_us"));
  a.input_us = part("input_us", f.number("input_us"));
  a.optimizer_us = part("optimizer_us", f.number("optimizer_us"));
  a.total_communication_us = part("total_communication_us", f.number("total_communication_us"));
  a.comm_bytes = part("comm_bytes", f.number("comm_bytes"));
  a.launch_kernels = part("launch_kernels", f.number_or("launch_kernels", 0));
  a.noise_us = part("noise_us", f.number_or("noise_us", 0));
  if (a.measured_us != 0 && a.measured_us < kLeast) f.fail("measured_us", "is shorter than a step can be");
  a.by_differences = f.has("method") && f.text("method") == "differences";
  a.fused_update = f.has("fused_update") && f.boolean("fused_update");
  return a;
}

StudyCell read_cell(const Fields& f) {
  StudyCell cell;
  cell.key = read_key(f.object("key"));
  cell.status = read_status(f.object("status"));
  cell.origin = read_origin(f);
  cell.steps = f.integer("steps");
  cell.warmup = f.integer("warmup");
  cell.num_failed = f.integer("num_failed");
  cell.num_waived = f.integer("num_waived");
  if (f.has("step_time_us")) cell.step_time_us = read_sample_summary(f.object("step_time_us"));
  if (f.has("throughput_samples_per_s")) cell.throughput = read_sample_summary(f.object("throughput_samples_per_s"));
  cell.memory_peak_bytes = f.maybe_number("memory_peak_bytes");
  cell.memory_modelled_bytes = f.maybe_number("memory_modelled_bytes");
  cell.tokens_per_s = f.maybe_number("tokens_per_s");
  cell.model_flops_per_s = f.maybe_number("model_flops_per_s");
  cell.utilisation_percent = f.maybe_number("utilisation_percent");
  cell.loss_first = f.maybe_number("loss_first");
  cell.loss_last = f.maybe_number("loss_last");
  cell.bubble_measured = f.maybe_number("bubble_measured");
  cell.bubble_simulated = f.maybe_number("bubble_simulated");
  cell.bubble_simulated_messages = f.maybe_number("bubble_simulated_messages");
  cell.pp_message_us = f.maybe_number("pp_message_us");
  if (f.has("share_rows"))
    for (const nlohmann::json& rows : f.array("share_rows")) {
      if (!rows.is_number()) f.fail("share_rows", "is no list of numbers");
      cell.share_rows.push_back(rows.get<double>());
    }
  cell.speed_bound = f.maybe_number("speed_bound_samples_per_s");
  if (f.has("account")) cell.account = read_account(f.object("account"));
  return cell;
}

constexpr Verdict kVerdicts[] = {Verdict::unclear, Verdict::faster, Verdict::slower, Verdict::same};
constexpr TestLevel kLevels[] = {TestLevel::none, TestLevel::runs, TestLevel::processes, TestLevel::calibrated};
constexpr Recommendation kRecommendations[] = {Recommendation::unclear, Recommendation::multi_device,
                                               Recommendation::marginal, Recommendation::single_device};

// The enumerator whose to_string equals the field's text.
template <typename E, size_t N>
E read_enum(const Fields& f, const char* name, const E (&values)[N]) {
  const std::string text = f.text(name);
  for (E value : values)
    if (to_string(value) == text) return value;
  f.fail(name, fmt::format("is \"{}\", which is unknown", text));
}

StudyComparison read_comparison(const Fields& f) {
  StudyComparison c;
  c.single = read_key(f.object("single"));
  c.multi = read_key(f.object("multi"));
  c.test = read_pair_test(f.object("speedup"));
  c.efficiency = f.number("efficiency");
  c.efficiency_ci = read_interval(f, "efficiency_ci");
  c.recommendation = read_enum(f, "recommendation", kRecommendations);
  // In older files, the test holds the larger of both numbers.
  c.more_runs = f.integer_or("more_runs", c.recommendation == Recommendation::unclear ? c.test.more_runs : 0);
  if (c.test.verdict != Verdict::unclear) c.test.more_runs = 0;
  return c;
}

AverageSpeedup read_average(const Fields& f) {
  AverageSpeedup a;
  a.model = f.text("model");
  a.scaling = f.text("scaling");
  a.math = f.text("math");
  a.strategy = f.text("strategy");
  a.launch = f.text("launch");
  a.devices = f.integer("devices");
  a.num_batches = f.integer("num_batches");
  a.geometric_mean = f.number("geometric_mean");
  a.ci = read_interval(f, "ci");
  a.recommendation = read_enum(f, "recommendation", kRecommendations);
  a.batches_disagree = f.boolean("batches_disagree");
  return a;
}

template <typename T, typename Read>
std::vector<T> read_list(const Fields& fields, const char* name, Read read) {
  std::vector<T> values;
  const json& array = fields.array(name);
  for (size_t i = 0; i < array.size(); ++i) values.push_back(read(fields.element(array, name, i)));
  return values;
}

}  // namespace

CellKey read_key(const Fields& f) {
  CellKey key;
  key.model = f.text("model");
  key.num_parameters = f.integer("num_parameters");
  key.scaling = f.text("scaling");
  key.math = f.text("math");
  key.global_batch = f.integer("global_batch");
  key.devices = f.integer("devices");
  key.strategy = f.text("strategy");
  key.launch = f.text("launch");
  key.backend = f.text("backend");
  key.optimizer = f.text("optimizer");
  const auto name = [](const PlanField& field) { return std::string(field.name); };
  key.plan = plan_of_axes(AxisReaders{[&](const PlanField& field) { return f.integer(name(field).c_str()); },
                                      [&](const PlanField& field) { return f.boolean(name(field).c_str()); },
                                      [&](const PlanField& field) {
                                        return choice_of(field, f.text(name(field).c_str()), Cause::store_corrupt,
                                                         "a summary's ");
                                      },
                                      [&](const PlanField& field) { return f.has(name(field).c_str()); }});
  key.data = f.text("data");
  return key;
}

SampleSummary read_sample_summary(const Fields& f) {
  SampleSummary s;
  s.n = f.integer("n");
  s.mean = f.number("mean");
  s.sd = f.number("sd");
  s.median = f.number("median");
  s.mad = f.number("mad");
  s.minimum = f.number("minimum");
  s.maximum = f.number("maximum");
  s.ci = read_interval(f, "ci");
  s.median_ci = read_interval(f, "median_ci");
  s.num_outliers = f.integer("num_outliers");
  s.mean_without_outliers = f.number("mean_without_outliers");
  s.sd_without_outliers = f.number("sd_without_outliers");
  s.ci_without_outliers = read_interval(f, "ci_without_outliers");
  s.num_processes = f.integer_or("num_processes", 1);
  s.process_median = f.number_or("process_median", 0);
  s.process_sd = f.number_or("process_sd", 0);
  return s;
}

PairTest read_pair_test(const Fields& f) {
  PairTest t;
  t.ratio = f.number("ratio");
  t.ci = read_interval(f, "ci");
  t.n_first = f.integer("n_first");
  t.n_second = f.integer("n_second");
  t.p_welch = f.number("p_welch");
  t.p_mann_whitney = f.maybe_number("p_mann_whitney");
  t.p_holm = f.number("p_holm");
  t.p_same = f.number("p_same");
  t.verdict = read_enum(f, "verdict", kVerdicts);
  t.more_runs = f.integer("more_runs");
  t.processes_first = f.integer_or("processes_first", 1);
  t.processes_second = f.integer_or("processes_second", 1);
  if (f.has("level")) t.level = read_enum(f, "level", kLevels);
  return t;
}

StudySummary summary_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  StudySummary summary;
  summary.device_kind = fields.text("device_kind");
  summary.conclusion = fields.text("conclusion");
  summary.cells = read_list<StudyCell>(fields, "cells", read_cell);
  summary.comparisons = read_list<StudyComparison>(fields, "comparisons", read_comparison);
  summary.averages = read_list<AverageSpeedup>(fields, "averages", read_average);
  if (fields.has("serial_fractions"))
    summary.serial_fractions = read_list<SerialFraction>(fields, "serial_fractions", read_serial_fraction);
  if (fields.has("one_device")) summary.one_device = read_one_device(fields.object("one_device"));
  summary.provenance = read_list<Provenance>(fields, "provenance", read_provenance);
  summary.notes = fields.texts("notes");
  return summary;
}

}  // namespace amdahl

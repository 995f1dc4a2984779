// Reads and writes summary.json; its schema is docs/schema/summary.schema.json.
#include <fmt/format.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "plan/cell_axes.h"
#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {

using nlohmann::json;

template <class Visitor>
void visit_fields(Visitor& f, SampleSummary& s) {
  f("n", s.n), f("mean", s.mean), f("sd", s.sd), f("median", s.median), f("mad", s.mad);
  f("minimum", s.minimum), f("maximum", s.maximum);
  f("ci", s.ci), f("median_ci", s.median_ci);
  f("num_outliers", s.num_outliers);
  f("mean_without_outliers", s.mean_without_outliers);
  f("sd_without_outliers", s.sd_without_outliers);
  f("ci_without_outliers", s.ci_without_outliers);
  const bool several = s.num_processes > 1;
  f.when(several, "num_processes", s.num_processes);
  f.when(several, "process_median", s.process_median);
  f.when(several, "process_sd", s.process_sd);
}

template <class Visitor>
void visit_fields(Visitor& f, Estimate& e) {
  f("value", e.value), f("ci", e.ci);
}

template <class Visitor>
void visit_fields(Visitor& f, PairTest& t) {
  f("ratio", t.ratio), f("ci", t.ci), f("n_first", t.n_first), f("n_second", t.n_second);
  f("p_welch", t.p_welch), f("p_mann_whitney", t.p_mann_whitney), f("p_holm", t.p_holm), f("p_same", t.p_same);
  f("verdict", t.verdict), f("more_runs", t.more_runs);
  f.when(true, "level", t.level);
  const bool several = t.processes_first > 1 || t.processes_second > 1;
  f.when(several, "processes_first", t.processes_first);
  f.when(several, "processes_second", t.processes_second);
}

constexpr double kLeastStepUs = 1e-9, kMostStepUs = 1e18;  // sums and ratios of accepted values are finite

template <class Visitor>
void visit_fields(Visitor& f, StepAccount& a) {
  f("n", a.n), f("step_us", a.step_us);
  f("forward_us", a.forward_us), f("backward_us", a.backward_us), f("compute_us", a.compute_us);
  f("exposed_communication_us", a.exposed_communication_us), f("waiting_us", a.waiting_us);
  f("launch_gaps_us", a.launch_gaps_us), f("input_us", a.input_us), f("optimizer_us", a.optimizer_us);
  f("total_communication_us", a.total_communication_us), f("comm_bytes", a.comm_bytes);
  f.when(true, "measured_us", a.measured_us);
  f.when(true, "launch_floor_us", a.launch_floor_us);
  f.when(true, "launch_kernels", a.launch_kernels);
  f.when(true, "noise_us", a.noise_us);
  f.when(true, "fused_update", a.fused_update);
  f.derived("ratio", a.ratio());
  std::string method = a.method == AccountMethod::differences ? "differences"
                       : a.method == AccountMethod::partition ? "partition"
                                                              : "stamps";
  f.when(true, "method", method);
  if constexpr (Visitor::kReads) {
    if (f.fields().has("method"))
      a.method = method == "differences" ? AccountMethod::differences
                 : method == "partition" ? AccountMethod::partition
                                         : AccountMethod::stamps;
    for (const auto& [name, value] : {std::pair{"step_us", a.step_us},
                                      {"measured_us", a.measured_us},
                                      {"launch_floor_us", a.launch_floor_us},
                                      {"forward_us", a.forward_us},
                                      {"backward_us", a.backward_us},
                                      {"compute_us", a.compute_us},
                                      {"exposed_communication_us", a.exposed_communication_us},
                                      {"waiting_us", a.waiting_us},
                                      {"launch_gaps_us", a.launch_gaps_us},
                                      {"input_us", a.input_us},
                                      {"optimizer_us", a.optimizer_us},
                                      {"total_communication_us", a.total_communication_us},
                                      {"comm_bytes", a.comm_bytes},
                                      {"launch_kernels", a.launch_kernels},
                                      {"noise_us", a.noise_us}})
      if (!(std::abs(value) <= kMostStepUs)) f.fields().fail(name, "is larger than a step can be");
    if (a.measured_us != 0 && a.measured_us < kLeastStepUs)
      f.fields().fail("measured_us", "is shorter than a step can be");
  }
}

template <class Visitor>
void visit_fields(Visitor& f, StudyCell& cell) {
  f("key", cell.key), f("status", cell.status), f("origin", cell.origin);
  f("steps", cell.steps), f("warmup", cell.warmup);
  f("num_failed", cell.num_failed), f("num_waived", cell.num_waived);
  f.when(cell.step_time_us.n > 0, "step_time_us", cell.step_time_us);
  if (cell.step_time_us.n > 0) {
    if constexpr (Visitor::kReads) {
      const auto possible = [](double us) { return us >= kLeastStepUs && us <= kMostStepUs; };
      const Estimate step = cell.step_time_us.estimate();
      if (!possible(step.value) ||
          (step.ci && ((step.ci->low > 0 && !possible(step.ci->low)) || !possible(step.ci->high))))
        f.fields().fail("step_time_us", "is shorter or longer than a step can be");
    } else {
      f.derived("throughput_samples_per_s", cell.throughput());
    }
  }
  f("memory_peak_bytes", cell.memory_peak_bytes), f("memory_modelled_bytes", cell.memory_modelled_bytes);
  f("tokens_per_s", cell.tokens_per_s), f("model_flops_per_s", cell.model_flops_per_s);
  f("model_flop_share", cell.model_flop_share);
  f("utilisation_percent", cell.utilisation_percent);
  f("loss_first", cell.loss_first), f("loss_last", cell.loss_last);
  f("bubble_measured", cell.bubble_measured), f("bubble_simulated", cell.bubble_simulated);
  f("bubble_simulated_messages", cell.bubble_simulated_messages), f("pp_message_us", cell.pp_message_us);
  f.when(!cell.share_rows.empty(), "share_rows", cell.share_rows);
  f("speed_bound_samples_per_s", cell.speed_bound);
  f("account", cell.account);
}

template <class Visitor>
void visit_fields(Visitor& f, StudyComparison& c) {
  f("single", c.single), f("multi", c.multi), f("speedup", c.test);
  f("efficiency", c.efficiency), f("efficiency_ci", c.efficiency_ci);
  f("recommendation", c.recommendation);
  if constexpr (Visitor::kReads)  // in older files, the test holds the larger of both numbers
    c.more_runs = c.recommendation == Recommendation::unclear ? c.test.more_runs : 0;
  f.when(true, "more_runs", c.more_runs);
  if constexpr (Visitor::kReads)
    if (c.test.verdict != Verdict::unclear) c.test.more_runs = 0;
}

template <class Visitor>
void visit_fields(Visitor& f, AverageSpeedup& a) {
  f("model", a.model), f("scaling", a.scaling), f("math", a.math), f("strategy", a.strategy), f("launch", a.launch);
  f("devices", a.devices), f("num_batches", a.num_batches);
  f("geometric_mean", a.geometric_mean), f("ci", a.ci);
  f.when(true, "configuration", a.configuration);
}

template <class Visitor>
void visit_fields(Visitor& f, SpeedupBound& bound) {
  f("whole", bound.whole), f("half", bound.half), f("ratio", bound.ratio), f("ci", bound.ci);
  f("cannot_pay", bound.cannot_pay);
  f.derived("origin", Origin::modelled);
}

template <class Visitor>
void visit_fields(Visitor& f, OneDeviceRow& row) {
  f("cell", row.cell), f("launch_share", row.launch_share), f("two_devices_at_most", row.two_devices);
}

template <class Visitor>
void visit_fields(Visitor& f, OneDeviceAlternative& a) {
  f("from", a.from), f("to", a.to), f("speed", a.test);
}

template <class Visitor>
void visit_fields(Visitor& f, OneDeviceSummary& one) {
  f("rows", one.rows), f("alternatives", one.alternatives);
  f("fastest", one.fastest), f("fastest_as_asked", one.fastest_as_asked);
}

template <class Visitor>
void visit_fields(Visitor& f, SerialPoint& p) {
  f("devices", p.devices), f("speedup", p.speedup), f("fraction", p.fraction), f("ci", p.ci);
}

template <class Visitor>
void visit_fields(Visitor& f, SerialFraction& fraction) {
  f("cell", fraction.cell), f("points", fraction.points);
  f("fitted", fraction.fitted), f("fitted_ci", fraction.fitted_ci);
  f("growth", fraction.growth), f("growth_ci", fraction.growth_ci), f("trend", fraction.trend);
}

template <class Visitor>
void visit_fields(Visitor& f, StudySummary& summary) {
  f("device_kind", summary.device_kind), f("conclusion", summary.conclusion);
  f("cells", summary.cells), f("comparisons", summary.comparisons), f("averages", summary.averages);
  f.when(true, "serial_fractions", summary.serial_fractions);
  f("one_device", summary.one_device);
  f("provenance", summary.provenance), f("notes", summary.notes);
  f.when(!summary.warnings.empty(), "warnings", summary.warnings);
}

json key_json(const CellKey& key) { return axes_json(axes_of(key)); }

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

json sample_summary_json(const SampleSummary& summary) { return written(summary); }
json pair_test_json(const PairTest& test) { return written(test); }

std::string summary_to_json(const StudySummary& summary) { return versioned(summary); }

StudySummary summary_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  return read_fields<StudySummary>(fields);
}

}  // namespace amdahl

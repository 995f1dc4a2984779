#include "verbs/planner/planner_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "amdahl/study.h"
#include "base/contention.h"
#include "base/deadline.h"
#include "files/whole_file.h"
#include "plan/plan_rules.h"
#include "planner/predict.h"
#include "setup/temporary_folder.h"
#include "spec/json.h"
#include "spec/run_folder.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

// Passes warnings and cancellation on and ends the study after its time; its progress would only confuse.
class LimitedObserver : public Observer {
 public:
  LimitedObserver(Observer& outer, double seconds) : outer_(outer) {
    if (seconds > 0) deadline_ = Deadline::after_seconds(seconds);
  }
  void planned(const StudyPlan& plan) override { model_ = plan.model; }
  void warning(const std::string& line) override { outer_.warning(line); }
  bool cancelled() override { return outer_.cancelled() || is_over(); }
  bool is_over() const { return deadline_ && deadline_->expired(); }
  const ModelSpec& model() const { return model_; }

 private:
  Observer& outer_;
  std::optional<Deadline> deadline_;
  ModelSpec model_;
};

int64_t number_axis(const Record& record, const char* axis) {
  const auto found = record.axes.find(axis);
  const auto* value = found == record.axes.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return value ? *value : 0;
}

std::string text_axis(const Record& record, const char* axis) {
  const auto found = record.axes.find(axis);
  const auto* value = found == record.axes.end() ? nullptr : std::get_if<std::string>(&found->second);
  return value ? *value : "";
}

/// Mean of a series' first samples; 0 where no record has it.
double mean_in(const std::vector<const Record*>& records, const char* series) {
  double sum = 0;
  int count = 0;
  for (const Record* record : records)
    if (const std::optional<double> value = record->value(series)) sum += *value, ++count;
  return count > 0 ? sum / count : 0;
}

MeasuredParts parts_in(const std::vector<const Record*>& records, const Mesh& mesh) {
  MeasuredParts parts;
  const double exposed = mean_in(records, "exposed_communication"), waiting = mean_in(records, "waiting");
  parts.compute_us = mean_in(records, "compute") + mean_in(records, "launch_gaps") + mean_in(records, "input");
  parts.optimizer_us = mean_in(records, "optimizer");
  parts.tp_us = mean_in(records, "tp_communication"), parts.pp_us = mean_in(records, "pp_communication");
  parts.bubble_us = mean_in(records, "bubble");
  parts.dp_us = exposed + waiting - parts.tp_us - parts.pp_us - parts.bubble_us;
  if (mesh.dp == 1) parts.compute_us += parts.dp_us, parts.dp_us = 0;  // waiting that belongs to no axis
  return parts;
}

double sum_of(const MeasuredParts& parts) {
  return parts.compute_us + parts.optimizer_us + parts.dp_us + parts.tp_us + parts.pp_us + parts.bubble_us;
}

/// The account is of one run, and the step of others: its parts as shares of that step.
MeasuredParts scaled(MeasuredParts parts, double step_us) {
  const double sum = sum_of(parts);
  if (sum <= 0) return parts;
  for (double MeasuredParts::*part : {&MeasuredParts::compute_us, &MeasuredParts::optimizer_us, &MeasuredParts::dp_us,
                                      &MeasuredParts::tp_us, &MeasuredParts::pp_us, &MeasuredParts::bubble_us})
    parts.*part *= step_us / sum;
  return parts;
}

/// Processor time that other programs took from a run, relative to its duration.
double disturbance(const Record& record) {
  const double duration = record.value("step_time").value_or(0) * static_cast<double>(number_axis(record, "steps"));
  const Contention lost{record.value("processor_others").value_or(0), record.value("processor_wait").value_or(0),
                        record.value("processor_stolen").value_or(0), record.value("processor_throttled").value_or(0)};
  return duration > 0 ? lost.lost_us() / duration : 0;
}

/// The half of the runs that other programs disturbed least.
std::vector<const Record*> least_disturbed(std::vector<const Record*> runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Record* a, const Record* b) { return disturbance(*a) < disturbance(*b); });
  runs.resize((runs.size() + 1) / 2);
  return runs;
}

/// The strategy axis of a study's cell of this plan.
std::string cell_name(const ParallelPlan& plan) {
  const bool is_usual = plan.mesh.tp == 1 && plan.mesh.pp == 1 && static_cast<PlanOptions>(plan) == PlanOptions{};
  return is_usual ? plan.strategy : format_plan(plan);
}

}  // namespace

double steps_of_cell(const StepSampling& sampling) {
  constexpr double kPartSteps = 14;  // of the step account
  return kPartSteps + 2 + sampling.warmup + sampling.runs * (1 + sampling.warmup + sampling.steps);
}

std::vector<MeasuredStepTime> measure_steps(const EngineConfig& engine, const ModelSpec& model,
                                            const std::vector<int64_t>& batches, const std::vector<ParallelPlan>& plans,
                                            const StepSampling& sampling, double seconds, Observer& observer) {
  const TemporaryFolder folder(engine.environment);
  const std::string file = (folder.path() / "model.json").string();
  save_text(file, model_to_json(model) + "\n");
  StudyConfig config;
  config.engine = engine;
  config.training.model = file;
  config.batch_sizes = batches;
  config.plans = plans;
  for (ParallelPlan& plan : config.plans) plan.global_batch = 0;  // those of `batches`
  if (plans.empty()) config.devices = {1}, config.mode = "single";
  config.variants = "none", config.brief = true;
  config.runs = sampling.runs, config.warmup = sampling.warmup, config.steps = sampling.steps;
  config.output_dir = (folder.path() / "study").string();
  LimitedObserver limited(observer, seconds);
  try {
    run_study(config, limited);
  } catch (const Error& error) {
    if (error.cause() != Cause::interrupted || observer.cancelled()) throw;  // its time is over
  }

  const std::vector<Record> records = read_records(config.output_dir);
  std::vector<ParallelPlan> all{parse_plan("dp1")};
  all.insert(all.end(), plans.begin(), plans.end());
  std::map<std::pair<int64_t, std::string>, bool> seen;
  std::vector<MeasuredStepTime> steps;
  for (const int64_t batch : batches)
    for (const ParallelPlan& plan : all) {
      const std::string name = cell_name(plan);
      if (!seen.emplace(std::pair(batch, name + mesh_text(plan.mesh)), true).second) continue;
      std::vector<const Record*> runs;
      for (const Record& record : records)
        if (record.status.kind == Status::Kind::ok && number_axis(record, "global_batch") == batch &&
            text_axis(record, "strategy") == name && number_axis(record, "devices") == plan.num_devices())
          runs.push_back(&record);
      if (runs.empty()) continue;
      MeasuredStepTime step;
      step.model = limited.model(), step.model.name = model.name;
      step.plan = plan, step.plan.global_batch = batch;
      for (const Record* run : least_disturbed(runs)) {
        step.runs_us.push_back(run->value("step_time").value_or(0));
        step.disturbance = std::max(step.disturbance, disturbance(*run));
      }
      const SampleSummary summary = summarise(step.runs_us);
      step.step_us = summary.median, step.sd_us = summary.sd;
      step.parts = scaled(parts_in(runs, plan.mesh), step.step_us);
      for (const Record* run : runs)
        step.memory_bytes = std::max(step.memory_bytes, run->value("memory_peak").value_or(0));
      step.modelled_bytes = mean_in(runs, "memory_modelled");
      steps.push_back(std::move(step));
    }
  return steps;
}

std::vector<PlanPart> parts_of_step(const PlanAccount& predicted, const MeasuredParts& measured, const Mesh& mesh) {
  const double compute = predicted.compute_us - predicted.slowed_us + predicted.gaps_us;
  // A study in which the device's work is timed by other means does not tell these sums from compute.
  const bool together = mesh.tp > 1 && measured.tp_us <= 0;
  std::vector<PlanPart> parts{{together ? "compute, launches and sums of tp" : "compute and launches",
                               compute + (together ? predicted.exposed_tp_us : 0), measured.compute_us}};
  if (mesh.tp > 1 && !together) parts.push_back({"sums of tp", predicted.exposed_tp_us, measured.tp_us});
  if (mesh.pp > 1) {
    parts.push_back({"pipeline bubble", predicted.bubble_us, measured.bubble_us});
    parts.push_back({"transfers of pp", predicted.exposed_pp_us, measured.pp_us});
  }
  if (mesh.dp > 1)
    parts.push_back({"gradients of dp, and waiting", predicted.exposed_dp_us + predicted.slowed_us, measured.dp_us});
  parts.push_back({"optimizer", predicted.optimizer_us, measured.optimizer_us});
  return parts;
}

FitRow fit_row(const MeasuredStepTime& step, int cores, const SoftwareProfile& software) {
  FitRow row{make_workload(step.model, step.plan, software), step.step_us};
  const MeasuredParts& parts = step.parts;
  if ((cores > 0 && step.plan.num_devices() > 1) || sum_of(parts) <= 0) return row;
  row.parts = FitParts{parts.compute_us + parts.tp_us + parts.bubble_us, parts.dp_us + parts.pp_us, parts.optimizer_us};
  return row;
}

}  // namespace amdahl

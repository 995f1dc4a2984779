#include "lab/planner_steps.h"

#include <fmt/format.h>

#include "files/whole_file.h"
#include "lab/temporary_folder.h"
#include "planner/predict.h"
#include "spec/json.h"

namespace amdahl {
namespace {

// Passes warnings and cancellation on; the progress of each study would only confuse.
class QuietObserver : public Observer {
 public:
  explicit QuietObserver(Observer& outer) : outer_(outer) {}
  bool cancelled() override { return outer_.cancelled(); }

 private:
  Observer& outer_;
};

StudyOutcome study_of(StudyConfig config, const ModelSpec& model, const StepSampling& sampling, Observer& observer) {
  const TemporaryFolder folder(config.engine.environment);
  const std::string file = (folder.path() / "model.json").string();
  save_text(file, model_to_json(model) + "\n");
  config.training.model = file;
  config.variants = "none";
  config.runs = sampling.runs, config.warmup = sampling.warmup, config.steps = sampling.steps;
  config.output_dir = (folder.path() / "study").string();
  QuietObserver quiet(observer);
  return run_study(config, quiet);
}

std::vector<MeasuredStepTime> steps_of(const StudyOutcome& outcome, const ParallelPlan& like) {
  std::vector<MeasuredStepTime> steps;
  for (const StudyCell& cell : outcome.summary.cells) {
    if (cell.step_time_us.n == 0) continue;
    MeasuredStepTime step;
    step.model = outcome.plan.model;
    step.plan = like;
    step.plan.strategy = cell.key.strategy;
    step.plan.mesh = {static_cast<int>(cell.key.devices), 1, 1};
    step.plan.global_batch = cell.key.global_batch;
    step.step_us = cell.step_time_us.median, step.sd_us = cell.step_time_us.sd;
    step.cell = cell;
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

std::vector<MeasuredStepTime> measure_steps(const EngineConfig& engine, const ModelSpec& model,
                                            const std::vector<int64_t>& batches, const std::vector<int64_t>& devices,
                                            const StepSampling& sampling, Observer& observer) {
  StudyConfig config;
  config.engine = engine;
  config.batch_sizes = batches;
  config.devices = devices;
  return steps_of(study_of(config, model, sampling, observer), {});
}

MeasuredStepTime measure_plan(const EngineConfig& engine, const ModelSpec& model, const ParallelPlan& plan,
                              const StepSampling& sampling, Observer& observer) {
  StudyConfig config;
  config.engine = engine;
  config.mode = "single";
  config.batch_sizes = {plan.global_batch};
  config.devices = {plan.mesh.dp};
  config.training.plan = plan;
  config.training.strategy = plan.mesh.dp > 1 ? plan.strategy : "ddp";
  if (plan.mesh.dp > 1) config.mode = "multi", config.devices = {1, plan.mesh.dp};
  for (MeasuredStepTime& step : steps_of(study_of(config, model, sampling, observer), plan))
    if (step.plan.mesh.dp == plan.mesh.dp) return step;
  throw Error(Cause::check_failed, fmt::format("a plan of {} devices gave no step time", plan.mesh.dp),
              "a study of the same model, batch and devices shows why");
}

FitRow fit_row(const MeasuredStepTime& step) {
  return {make_workload(step.model, step.plan, amdahl_profile()), step.step_us};
}

}  // namespace amdahl

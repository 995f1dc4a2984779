// Runs predicted plans on this machine, compares, and corrects the calibration.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "amdahl/amdahl.h"
#include "amdahl/planner.h"
#include "files/whole_file.h"
#include "lab/backends.h"
#include "lab/planner_steps.h"
#include "planner/predict.h"
#include "planner/rank.h"
#include "spec/calibration_json.h"
#include "stats/summary.h"
#include "topology/host_probe.h"

namespace amdahl {
namespace {

// The plans to run: the best, and random ones of the rest.
std::vector<VerifiedPlan> chosen(const std::vector<RankedPlan>& ranking, const VerifyConfig& config) {
  std::vector<VerifiedPlan> plans;
  const size_t best = std::min(ranking.size(), static_cast<size_t>(std::max(1, config.best)));
  for (size_t i = 0; i < best; ++i) plans.push_back({ranking[i], false, 0, 0, false, {}});
  std::vector<size_t> rest;
  for (size_t i = best; i < ranking.size(); ++i) rest.push_back(i);
  std::mt19937_64 engine(config.engine.seed);
  std::shuffle(rest.begin(), rest.end(), engine);
  rest.resize(std::min(rest.size(), static_cast<size_t>(std::max(0, config.random))));
  for (const size_t i : rest) plans.push_back({ranking[i], true, 0, 0, false, {}});
  return plans;
}

std::vector<VerifiedPart> parts_of(const PlanAccount& predicted, const StudyCell& cell) {
  if (!cell.account) return {};
  const StepAccount& measured = *cell.account;
  return {
      {"compute and launches", predicted.compute_us + predicted.gaps_us, measured.compute_us + measured.launch_gaps_us},
      {"exposed communication and waiting", predicted.exposed_dp_us,
       measured.exposed_communication_us + measured.waiting_us},
      {"optimizer", predicted.optimizer_us, measured.optimizer_us}};
}

double median_error_of(const std::vector<double>& errors) { return errors.empty() ? 0 : median_of(errors); }

// A correction of the constants by the steps just measured; the calibration before is the prior.
void refit(const std::vector<MeasuredStepTime>& steps, const VerifyConfig& config, VerifyOutcome& outcome) {
  std::vector<FitRow> rows;
  for (const MeasuredStepTime& step : steps) rows.push_back(fit_row(step));
  std::vector<const FitRow*> pointers;
  for (const FitRow& row : rows) pointers.push_back(&row);
  const Rates before = rates_of(outcome.prediction.calibration);
  const Rates after = fit_rates(pointers, before, &RateField::own_prior_sd);
  outcome.refitted = outcome.prediction.calibration;
  for (const RateField& field : rate_fields())
    for (CalibrationConstant& constant : outcome.refitted.constants)
      if (constant.name == field.name && after.*field.member != before.*field.member) {
        constant.value = after.*field.member;
        constant.origin = ConstantOrigin::fitted;
        constant.source += fmt::format("; corrected by {} steps of {}", rows.size(), outcome.prediction.model.name);
      }
  std::vector<double> errors;
  for (const FitRow& row : rows)
    errors.push_back(std::abs(account_of(row.work, after, PipelineMethod::simulation).step_us() / row.step_us - 1));
  outcome.refitted_error = median_error_of(errors);
  save_text(config.plan.machine,
            with_calibrations(read_file(config.plan.machine, Cause::usage), {outcome.refitted}) + "\n");
}

}  // namespace

VerifyOutcome run_plan_verification(const VerifyConfig& given, Observer& observer) {
  VerifyConfig config = given;
  if (config.plan.machine.empty() || !config.plan.what_if.empty())
    throw Error(Cause::usage, "verification runs plans on this machine: no assumptions",
                "`machine=FILE` of this machine, without `what_if`");
  load_machine(config.plan.machine);  // refuses the file of another host
  VerifyOutcome outcome;
  config.plan.top = 1 << 20, config.plan.executable_only = true;
  outcome.prediction = run_plan(config.plan);
  const Calibration& calibration = outcome.prediction.calibration;
  config.engine.backend = calibration.device_kind == "cuda" ? "cuda" : "cpu";
  for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::bf16})
    if (to_string(math) == calibration.math) config.engine.math = math;
  if (config.engine.backend == "cuda") config.engine.launch = LaunchMode::graph;
  outcome.plans = chosen(outcome.prediction.ranking, config);

  std::vector<MeasuredStepTime> steps;
  std::vector<double> errors;
  int done = 0;
  bool outside = false;
  double best_measured = INFINITY;
  for (VerifiedPlan& plan : outcome.plans) {
    observer.progress(done++, static_cast<int>(outcome.plans.size()), plan.plan.text);
    steps.push_back(measure_plan(config.engine, outcome.prediction.model, plan.plan.step.plan,
                                 {std::max(2, config.runs), 3, 10}, observer));
    plan.measured_us = steps.back().step_us, plan.sd_us = steps.back().sd_us;
    const Interval& interval = plan.plan.step.interval;
    plan.inside = plan.measured_us >= interval.low && plan.measured_us <= interval.high;
    plan.parts = parts_of(plan.plan.step.account, steps.back().cell);
    outside |= !plan.inside;
    errors.push_back(std::abs(plan.plan.step.step_us / plan.measured_us - 1));
    best_measured = std::min(best_measured, plan.measured_us);
  }
  outcome.median_error = median_error_of(errors);
  if (!outcome.plans.empty()) outcome.loss_of_choice = outcome.plans.front().measured_us / best_measured - 1;
  if (config.refit && outside) refit(steps, config, outcome);
  return outcome;
}

}  // namespace amdahl

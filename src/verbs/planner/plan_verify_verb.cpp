// Runs predicted plans on this machine, compares, and corrects the calibration.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <random>

#include "amdahl/planner.h"
#include "amdahl/report.h"
#include "files/whole_file.h"
#include "plan/plan_rules.h"
#include "planner/predict.h"
#include "planner/rank.h"
#include "report/plan/measured_page.h"
#include "setup/backends.h"
#include "setup/provenance.h"
#include "spec/calibration_json.h"
#include "spec/run_folder.h"
#include "stats/summary.h"
#include "verbs/planner/planner_steps.h"

namespace amdahl {
namespace {

constexpr int64_t kMostBatch = 4096;   // that is tried where none is given
constexpr double kTrustedShare = 0.6;  // of the time may be planned: predictions may be too short

// The plans to run: the best, and random ones of the rest.
std::vector<VerifiedPlan> chosen(const std::vector<RankedPlan>& ranking, const VerifyConfig& config) {
  std::vector<VerifiedPlan> plans;
  const auto add = [&](const RankedPlan& plan, bool random) {
    plans.emplace_back();
    plans.back().plan = plan, plans.back().random = random;
  };
  const size_t best = std::min(ranking.size(), static_cast<size_t>(std::max(1, config.best)));
  for (size_t i = 0; i < best; ++i) add(ranking[i], false);
  std::vector<size_t> rest;
  for (size_t i = best; i < ranking.size(); ++i) rest.push_back(i);
  std::mt19937_64 engine(config.engine.seed);
  std::shuffle(rest.begin(), rest.end(), engine);
  rest.resize(std::min(rest.size(), static_cast<size_t>(std::max(0, config.random))));
  for (const size_t i : rest) add(ranking[i], true);
  return plans;
}

std::vector<VerifiedPlan> given_plans(const PlanOutcome& prediction, const VerifyConfig& config) {
  std::vector<VerifiedPlan> plans;
  for (ParallelPlan plan : config.plans) {
    plan.global_batch = prediction.global_batch;
    plans.emplace_back();
    plans.back().plan.step = predict_step(prediction.model, plan, prediction.calibration);
    plans.back().plan.text = format_plan(plan);
  }
  return plans;
}

/// What to run, and how often.
struct Effort {
  PlanOutcome prediction;
  std::vector<VerifiedPlan> plans;
  StepSampling sampling;
};

double expected_seconds(const std::vector<VerifiedPlan>& plans, const StepSampling& sampling) {
  constexpr double kPerCell = 0.3;
  double slowest = 0, seconds = 0;
  for (const VerifiedPlan& plan : plans) {
    seconds += kPerCell + steps_of_cell(sampling) * plan.plan.step.step_us * 1e-6;
    slowest = std::max(slowest, plan.plan.step.step_us);
  }
  return seconds + kPerCell + steps_of_cell(sampling) * slowest * 1e-6;  // one device is measured too
}

constexpr StepSampling kSamplings[] = {{7, 20, 300}, {7, 10, 100}, {7, 5, 50}, {5, 3, 25},
                                       {5, 2, 10},   {3, 2, 6},    {3, 1, 3}};

std::optional<StepSampling> affordable(const std::vector<VerifiedPlan>& plans, double seconds) {
  for (const StepSampling& sampling : kSamplings)
    if (expected_seconds(plans, sampling) <= kTrustedShare * seconds) return sampling;
  return std::nullopt;
}

/// The least time that must be given for the plans.
int64_t seconds_needed(const std::vector<VerifiedPlan>& plans) {
  return static_cast<int64_t>(std::ceil(expected_seconds(plans, *std::rbegin(kSamplings)) / kTrustedShare));
}

/// A global batch that was asked for is kept; without one, the largest power of two that fits into the time.
Effort effort_for(const VerifyConfig& config) {
  PlanConfig plan = config.plan;
  plan.top = 1 << 20;
  const bool given = plan.global_batch > 0;
  if (!given) plan.global_batch = kMostBatch;
  int64_t needed = 0;
  for (; plan.global_batch > 0; plan.global_batch /= 2) {
    Effort effort;
    effort.prediction = run_plan(plan);
    const bool all_feasible = std::all_of(config.plans.begin(), config.plans.end(), [&](ParallelPlan one) {
      one.global_batch = plan.global_batch;
      return plan_feasible(one, effort.prediction.model).ok;
    });
    if (!all_feasible && !given && needed > 0) break;
    effort.plans =
        config.plans.empty() ? chosen(effort.prediction.ranking, config) : given_plans(effort.prediction, config);
    if (const std::optional<StepSampling> sampling = affordable(effort.plans, config.seconds)) {
      effort.sampling = *sampling;
      return effort;
    }
    needed = seconds_needed(effort.plans);
    if (given) break;
  }
  throw Error(Cause::usage,
              fmt::format("{} at global batch {} needs about {}, and `seconds` is {:.3g}", config.plan.model,
                          std::max<int64_t>(1, plan.global_batch), format_duration(static_cast<double>(needed)),
                          config.seconds),
              fmt::format("`seconds={}`, fewer plans, or a smaller model or batch", needed));
}

Record record_of(const VerifiedPlan& plan, const MeasuredStepTime& step, const PlanOutcome& prediction,
                 const Provenance& provenance) {
  Record record;
  record.kind = "plan-verification";
  record.provenance = provenance;
  record.axes = {{"model", prediction.model.name},
                 {"num_parameters", prediction.model.num_parameters()},
                 {"global_batch", prediction.global_batch},
                 {"devices", static_cast<int64_t>(step.plan.num_devices())},
                 {"plan", plan.plan.text},
                 {"random", plan.random},
                 {"math", prediction.calibration.math}};
  const Interval& interval = plan.plan.step.interval;
  record.series = {{"step_time", "us", step.runs_us},
                   {"predicted_step", "us", {plan.plan.step.step_us}},
                   {"predicted_low", "us", {interval.low}},
                   {"predicted_high", "us", {interval.high}},
                   {"memory_peak", "bytes", {step.memory_bytes}},
                   {"memory_modelled", "bytes", {step.modelled_bytes}},
                   {"disturbance", "1", {step.disturbance}}};
  for (const PlanPart& part : plan.parts) {
    record.series.push_back({part.name, "us", {part.measured_us}});
    record.series.push_back({"predicted " + part.name, "us", {part.predicted_us}});
  }
  return record;
}

// A correction of the constants by the steps just measured; the calibration before is the prior.
void refit(const std::vector<MeasuredStepTime>& steps, const VerifyConfig& config, VerifyOutcome& outcome) {
  constexpr double kTightness = 3;  // few steps: a constant moves only where that explains much
  std::vector<FitRow> rows;
  const Rates before = rates_of(outcome.prediction.calibration);
  const SoftwareProfile software = profile_of(outcome.prediction.calibration);
  for (const MeasuredStepTime& step : steps)
    rows.push_back(fit_row(step, static_cast<int>(before.shared_cores), software));
  std::vector<const FitRow*> pointers;
  for (const FitRow& row : rows) pointers.push_back(&row);
  const Rates after = fit_rates(pointers, before, &RateField::own_prior_sd, kTightness);
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
  outcome.refitted_error = median_of(errors);
  outcome.corrected = outcome.refitted_error < outcome.median_error;
  if (outcome.corrected)
    save_text(config.plan.machine,
              with_calibrations(read_file(config.plan.machine, Cause::usage), {outcome.refitted}) + "\n");
}

/// The engine whose calibration is used.
EngineConfig engine_of(const VerifyConfig& config, const Calibration& calibration) {
  EngineConfig engine = config.engine;
  engine.backend = calibration.device_kind == "cuda" ? "cuda" : "cpu";
  for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::bf16})
    if (to_string(math) == calibration.math) engine.math = math;
  if (engine.backend == "cuda") engine.launch = LaunchMode::graph;
  return engine;
}

/// Steps of the plans, in the order of `effort`. `seconds`: for all plans.
std::vector<MeasuredStepTime> measure_plans(const EngineConfig& engine, const Effort& effort, double seconds,
                                            Observer& observer) {
  std::vector<ParallelPlan> plans;
  for (const VerifiedPlan& one : effort.plans) plans.push_back(one.plan.step.plan);
  return measure_steps(engine, effort.prediction.model, {effort.prediction.global_batch}, plans, effort.sampling,
                       seconds, observer);
}

}  // namespace

VerifyOutcome run_plan_verification(const VerifyConfig& config, Observer& observer) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  if (config.plan.machine.empty() || !config.plan.what_if.empty())
    throw Error(Cause::usage, "verification runs plans on this machine: no assumptions",
                "`machine=FILE` of this machine, without `what_if`");
  if (!(config.seconds > 0))
    throw Error(Cause::usage, fmt::format("`seconds` is {}", config.seconds), "for example 120");
  const MachineSpec machine = load_machine(config.plan.machine);  // refuses the file of another host
  Effort effort = effort_for(config);
  VerifyOutcome outcome;
  outcome.prediction = effort.prediction;
  const EngineConfig engine = engine_of(config, outcome.prediction.calibration);
  observer.note(fmt::format("{} plans at global batch {}, {} runs of {} steps each: about {}", effort.plans.size(),
                            outcome.prediction.global_batch, effort.sampling.runs, effort.sampling.steps,
                            format_duration(expected_seconds(effort.plans, effort.sampling))));
  const std::vector<MeasuredStepTime> measured = measure_plans(engine, effort, config.seconds - spent(), observer);

  std::optional<RunFolder> folder;
  if (!config.output_dir.empty()) {
    folder = RunFolder::create(config.output_dir, {"plan-verification", {{"model", outcome.prediction.model.name}}});
    outcome.run_dir = config.output_dir;
  }
  const Provenance provenance = make_provenance(engine, outcome.prediction.calibration.device_kind, machine.devices);
  std::vector<MeasuredStepTime> used;
  for (VerifiedPlan& plan : effort.plans) {
    const auto step = std::find_if(measured.begin(), measured.end(), [&](const MeasuredStepTime& one) {
      return format_plan(one.plan) == plan.plan.text;
    });
    if (step == measured.end()) {
      outcome.notes.push_back(fmt::format("{} was not measured: no time or memory left", plan.plan.text));
      continue;
    }
    plan.measured_us = step->step_us, plan.sd_us = step->sd_us, plan.memory_bytes = step->memory_bytes,
    plan.modelled_bytes = step->modelled_bytes;
    plan.runs = static_cast<int64_t>(step->runs_us.size());
    plan.parts = parts_of_step(plan.plan.step.account, step->parts, step->plan.mesh);
    if (folder) folder->append(record_of(plan, *step, outcome.prediction, provenance));
    used.push_back(*step);
    outcome.plans.push_back(plan);
  }
  if (outcome.plans.empty())
    throw Error(
        Cause::check_failed, fmt::format("no plan was measured within {:.0f} s", config.seconds),
        fmt::format("`seconds={}`", 2 * std::max(seconds_needed(effort.plans), static_cast<int64_t>(config.seconds))));
  if (folder) folder->end();
  judge_plans(outcome);
  if (config.refit) refit(used, config, outcome);
  outcome.seconds = spent();
  return outcome;
}

}  // namespace amdahl

// Calibrates the planner's constants on this machine, by steps of small models.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "amdahl/fabric.h"
#include "amdahl/planner.h"
#include "amdahl/report.h"
#include "files/whole_file.h"
#include "planner/left_out.h"
#include "planner/predict.h"
#include "planner/priors.h"
#include "planner/probes.h"
#include "planner/terms.h"
#include "report/page/html_page.h"
#include "report/plan/measured_page.h"
#include "setup/backends.h"
#include "spec/calibration_json.h"
#include "spec/json.h"
#include "stats/line_fit.h"
#include "verbs/planner/planner_steps.h"

namespace amdahl {
namespace {

// Latency and bus bandwidth of an all-reduce over so many devices.
void measure_all_reduce(const CalibrationConfig& config, int devices, Rates& rates) {
  CollectivesConfig sweep;
  sweep.backend = config.engine.backend, sweep.gpus = config.engine.gpus, sweep.devices = devices;
  sweep.environment = config.engine.environment, sweep.timeout_seconds = config.engine.timeout_seconds;
  sweep.min_bytes = 4 << 10, sweep.max_bytes = 64 << 20;
  sweep.step_factor = 16, sweep.check = false, sweep.iterations = 10;
  Observer quiet;
  std::vector<double> bytes, times;
  for (const Record& record : run_collectives(sweep, quiet).records) {
    const auto size = record.axes.find("bytes");
    const std::optional<double> us = record.value("time");
    if (size == record.axes.end() || !us || !std::holds_alternative<int64_t>(size->second)) continue;
    bytes.push_back(static_cast<double>(std::get<int64_t>(size->second)) * 2 * (devices - 1) / devices);
    times.push_back(*us - ramp_us(static_cast<double>(std::get<int64_t>(size->second)), rates));
  }
  if (bytes.size() < 2) return;
  const AlphaBeta fit = fit_alpha_beta(bytes, times);
  if (!(fit.beta_gbps > 0)) return;
  // A line through sizes of three orders may leave a negative rest; the smallest size is latency in any case.
  rates.dp_alpha_us = rates.tp_alpha_us = std::max(fit.alpha_us, *std::min_element(times.begin(), times.end()) / 2);
  rates.dp_gbps = rates.tp_gbps = rates.pp_gbps = fit.beta_gbps;
  rates.hop_us = 0, rates.link_total_gbps = 0;
}

struct Steps {
  std::vector<MeasuredStepTime> measured;
  std::vector<FitRow> rows;
  int models = 0;
};

// Steps of a run: enough of short ones, by what is expected, that their times are stable. Runs of virtual devices
// differ more than those of GPUs, each of which has to be set up.
StepSampling sampling_for(const ModelSpec& model, int64_t batch, const Rates& prior, const SoftwareProfile& software) {
  constexpr double kRunUs = 30e3;
  ParallelPlan plan = parse_plan("dp1");
  plan.global_batch = batch;
  const double step_us = account_of(make_workload(model, plan, software), prior, PipelineMethod::bound).step_us();
  const int steps = static_cast<int>(std::clamp(kRunUs / step_us, 6.0, 200.0));
  return {prior.shared_cores > 0 ? 5 : 3, std::max(2, steps / 5), steps};
}

Steps measure_probes(const EngineConfig& engine, const std::vector<Probe>& probes, int devices, const Rates& prior,
                     const SoftwareProfile& software, double seconds, Observer& observer) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Steps steps;
  for (const Probe& probe : probes) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (steps.models > 0 && spent > seconds) break;
    observer.progress(steps.models++, static_cast<int>(probes.size()), probe.model.name);
    std::vector<ParallelPlan> plans;
    for (const char* text : probe.plans)
      if (const ParallelPlan plan = parse_plan(text); plan.num_devices() <= devices) plans.push_back(plan);
    for (const int64_t batch : probe.batches)
      for (MeasuredStepTime& step : measure_steps(engine, probe.model, {batch}, plans,
                                                  sampling_for(probe.model, batch, prior, software), 0, observer)) {
        steps.rows.push_back(fit_row(step, static_cast<int>(prior.shared_cores), software));
        steps.measured.push_back(std::move(step));
      }
  }
  return steps;
}

// Predicts each model by a fit to the others; the interval's factor is from these errors.
void judge(const Steps& steps, const Rates& prior, const Rates& fitted, CalibrationOutcome& outcome) {
  std::vector<std::string> models;
  for (const MeasuredStepTime& step : steps.measured) models.push_back(step.model.name);
  const LeftOut left_out = leave_groups_out(steps.rows, models, prior);
  outcome.calibration.interval_factor = left_out.interval_factor;
  outcome.in_sample = summarise_errors("in the sample", relative_errors(steps.rows, fitted));
  outcome.left_out_model = summarise_errors("model left out", left_out.errors);
  for (size_t i = 0; i < steps.rows.size(); ++i) {
    const MeasuredStepTime& step = steps.measured[i];
    const PlanAccount& account = left_out.accounts[i];
    outcome.steps.push_back({step.model.name, format_plan(step.plan), step.plan.global_batch, step.step_us,
                             account.step_us(), interval_of(account, outcome.calibration.interval_factor),
                             parts_of_step(account, step.parts, step.plan.mesh)});
    const Interval& interval = outcome.steps.back().interval;
    outcome.coverage +=
        (step.step_us >= interval.low && step.step_us <= interval.high) / static_cast<double>(steps.rows.size());
  }
}

void warn_of_disturbance(const Steps& steps, Observer& observer) {
  constexpr double kMuch = 0.05;
  const auto disturbed = std::count_if(steps.measured.begin(), steps.measured.end(),
                                       [](const MeasuredStepTime& step) { return step.disturbance > kMuch; });
  if (4 * disturbed > static_cast<std::ptrdiff_t>(steps.measured.size()))
    observer.warning(fmt::format("other programs took processors from {} of {} steps: calibrate on an idle machine",
                                 disturbed, steps.measured.size()));
}

MachineSpec machine_for(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error) ? load_machine(path) : run_topo({}).machine;
}

}  // namespace

CalibrationOutcome run_calibration(const CalibrationConfig& given, Observer& observer) {
  const auto start = std::chrono::steady_clock::now();
  CalibrationConfig config = given;
  config.engine.backend = std::string(choose_backend(config.engine).name);
  const bool cpu = config.engine.backend == "cpu";
  if (!config.machine.empty()) {
    if (const Availability place = check_output(config.machine); !place.ok)
      throw Error(Cause::usage, fmt::format("`machine` {}: {}", printable(config.machine), place.reason), place.remedy);
    check_machine_file(config.machine);
  }
  const MachineSpec machine = machine_for(config.machine);
  int devices = config.devices > 0 ? config.devices
                : cpu              ? 4
                                   : std::max(1, static_cast<int>(config.engine.gpus.empty() ? machine.devices.size()
                                                                                             : config.engine.gpus.size()));
  const std::string math(to_string(config.engine.math));
  const std::string name = cpu || machine.devices.empty() ? machine.cpu_name : machine.devices.front().name;
  Rates prior = cpu ? cpu_prior(machine.num_cores) : gpu_prior(name, math);
  // Virtual devices of a sweep arrive at once and find their bytes in the cache; those of a step have slept, and one is
  // late: the sweep would say 1 us and 25 GB/s, and steps 50 us and 6 GB/s.
  if (devices > 1 && !cpu) measure_all_reduce(config, devices, prior);
  if (!cpu) config.engine.launch = LaunchMode::graph;
  const Steps steps = measure_probes(config.engine, cpu ? cpu_probes() : gpu_probes(), devices, prior,
                                     cpu ? amdahl_profile() : amdahl_gpu_profile(math),
                                     config.seconds > 0 ? config.seconds
                                     : cpu              ? 46
                                                        : 85,
                                     observer);
  std::vector<const FitRow*> rows;
  for (const FitRow& row : steps.rows) rows.push_back(&row);
  const Rates fitted = fit_rates(rows, prior, &RateField::own_prior_sd);

  CalibrationOutcome outcome;
  Calibration& calibration = outcome.calibration;
  calibration = calibration_of(fitted, ConstantOrigin::fitted, "");
  for (size_t i = 0; i < rate_fields().size(); ++i) {
    const RateField& field = rate_fields()[i];
    CalibrationConstant& constant = calibration.constants[i];
    const bool link = field.name == "tp_alpha_us" || field.name == "dp_alpha_us" || field.name == "tp_gbps" ||
                      field.name == "dp_gbps" || field.name == "pp_gbps";
    const bool was_measured = devices > 1 && link;
    constant.origin = field.own_prior_sd > 0 && (devices > 1 || !link) ? ConstantOrigin::fitted
                      : was_measured                                   ? ConstantOrigin::measured
                                                                       : ConstantOrigin::assumed;
    constant.source = constant.origin == ConstantOrigin::fitted
                          ? fmt::format("least squares over {} steps of {} models", steps.rows.size(), steps.models)
                      : was_measured ? fmt::format("all-reduce of {} devices", devices)
                                     : std::string(field.meaning);
  }
  calibration.host = machine.host, calibration.device_name = name, calibration.math = math;
  calibration.device_kind = cpu ? "cpu-virtual" : "cuda";
  calibration.software = "amdahl";
  if (!cpu && !machine.devices.empty()) calibration.memory_bytes = machine.devices.front().memory_bytes;
  judge(steps, prior, fitted, outcome);
  warn_of_disturbance(steps, observer);
  calibration.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!config.machine.empty()) {
    save_machine(config.machine, machine);
    save_text(config.machine, with_calibrations(read_file(config.machine, Cause::usage), {calibration}) + "\n");
    outcome.machine_file = config.machine;
  }
  if (!config.html.empty())
    save_text(config.html, html_page(calibration_page(outcome, to_json(outcome)), html_assets()));
  return outcome;
}

}  // namespace amdahl

// Calibrates the planner's constants on this machine, by steps of small models.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "amdahl/amdahl.h"
#include "amdahl/planner.h"
#include "files/whole_file.h"
#include "lab/backends.h"
#include "lab/planner_steps.h"
#include "planner/catalogue.h"
#include "planner/predict.h"
#include "spec/calibration_json.h"
#include "spec/json.h"
#include "stats/line_fit.h"
#include "stats/percentile.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

struct Probe {
  ModelSpec model;
  std::vector<int64_t> batches;
};

ModelSpec mlp(const std::vector<int64_t>& widths) {
  ModelSpec model;
  model.name = "mlp";
  model.input_width = 50;
  for (const int64_t width : widths) {
    model.name += fmt::format("-{}", width);
    LayerSpec layer;
    layer.units = width;
    model.layers.push_back(layer);
  }
  LayerSpec last;
  last.units = 3, last.activation = Activation::none;
  model.layers.push_back(last);
  return model;
}

ModelSpec small_gpt(int64_t units, int64_t heads, int64_t blocks, int64_t steps, int64_t vocabulary) {
  ModelSpec model;
  model.name = fmt::format("gpt-{}x{}", units, blocks);
  model.input_width = steps, model.input_shape = {steps};
  model.loss = LossKind::softmax_cross_entropy;
  LayerSpec layer;
  layer.activation = Activation::none;
  layer.kind = LayerKind::embedding, layer.units = units, layer.vocabulary = vocabulary;
  model.layers.push_back(layer);
  layer.kind = LayerKind::transformer_block, layer.heads = heads, layer.causal = true, layer.vocabulary = 0;
  for (int64_t i = 0; i < blocks; ++i) model.layers.push_back(layer);
  LayerSpec head;
  head.activation = Activation::none;
  head.kind = LayerKind::token_head, head.vocabulary = vocabulary, head.tied = true;
  model.layers.push_back(head);
  return model;
}

// The most different first: the time may end before all were measured.
std::vector<Probe> cpu_probes() {
  return {{mlp({256, 128, 64}), {16, 64, 256}}, {mlp({1024, 512}), {16, 64}}, {small_gpt(64, 2, 2, 32, 256), {4, 16}},
          {mlp({64, 64}), {16, 256}},           {mlp({512, 512}), {32, 128}}, {small_gpt(128, 4, 2, 64, 512), {4}},
          {mlp({2048, 256}), {16, 128}}};
}

std::vector<Probe> gpu_probes() {
  return {{mlp({256, 128, 64}), {64, 1024, 8192}},
          {mlp({1024, 1024, 512}), {64, 1024, 8192}},
          {mlp({4096, 4096}), {64, 1024, 8192}},
          {mlp({8192, 2048}), {256, 4096}},
          {mlp({512, 512, 512, 512, 512, 512}), {64, 4096}},
          {small_gpt(512, 8, 4, 512, 8192), {4, 16}},
          {small_gpt(768, 12, 4, 1024, 50257), {1, 4, 8}},
          {small_gpt(1024, 16, 2, 1024, 50257), {2, 8}}};
}

Rates cpu_prior(int cores) {
  Rates rates;
  rates.gemm_tflops = 0.06, rates.batched_gemm_tflops = 0.03;
  rates.gemm_half_waves = 4, rates.gemm_units = 1, rates.gemm_tile = 16;
  rates.memory_gbps = 10, rates.optimizer_ps = 1000;
  rates.launch_us = rates.softmax_launch_us = 2, rates.head_us = 20, rates.input_us = 10, rates.step_us = 20;
  rates.queue_exponent = 1;  // one thread is host and device
  rates.collective_launch_us = 2, rates.collective_wait_us = 10;
  rates.tp_alpha_us = rates.dp_alpha_us = 30, rates.tp_gbps = rates.dp_gbps = rates.pp_gbps = 3;
  rates.interference = 0.5, rates.sharing = 0.05, rates.shared_cores = cores;
  return rates;
}

Rates gpu_prior(const std::string& name, const std::string& math) {
  const GpuKind* kind = gpu_kind_of(name);
  Rates rates = rates_of_kind(kind ? *kind : find_gpu_kind("h100"), math);
  rates.queue_exponent = 1;  // nodes of a graph: one after another
  rates.step_us = 5;
  return rates;
}

// Latency and bus bandwidth of an all-reduce over so many devices.
void measure_all_reduce(const CalibrationConfig& config, int devices, Rates& rates) {
  CollectivesConfig sweep;
  sweep.backend = config.engine.backend, sweep.gpus = config.engine.gpus, sweep.devices = devices;
  sweep.environment = config.engine.environment, sweep.timeout_seconds = config.engine.timeout_seconds;
  sweep.min_bytes = 4 << 10, sweep.max_bytes = config.engine.backend == "cpu" ? 4 << 20 : 64 << 20;
  sweep.step_factor = 16, sweep.check = false, sweep.iterations = 10;
  Observer quiet;
  std::vector<double> bytes, times;
  for (const Record& record : run_collectives(sweep, quiet).records) {
    const auto size = record.axes.find("bytes");
    const std::optional<double> us = record.value("time");
    if (size == record.axes.end() || !us || !std::holds_alternative<int64_t>(size->second)) continue;
    bytes.push_back(static_cast<double>(std::get<int64_t>(size->second)) * 2 * (devices - 1) / devices);
    times.push_back(*us);
  }
  if (bytes.size() < 2) return;
  const AlphaBeta fit = fit_alpha_beta(bytes, times);
  if (!(fit.beta_gbps > 0)) return;
  rates.dp_alpha_us = rates.tp_alpha_us = std::max(fit.alpha_us, 0.5);
  rates.dp_gbps = rates.tp_gbps = rates.pp_gbps = fit.beta_gbps;
  rates.hop_us = 0, rates.link_total_gbps = 0;
}

struct Steps {
  std::vector<MeasuredStepTime> measured;
  std::vector<FitRow> rows;
};

constexpr size_t kFewestProbes = 3;

Steps measure_probes(const EngineConfig& engine, const std::vector<Probe>& probes, const std::vector<int64_t>& devices,
                     double seconds, Observer& observer) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const StepSampling sampling{2, 2, 6};
  Steps steps;
  int done = 0;
  for (const Probe& probe : probes) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (static_cast<size_t>(done) >= kFewestProbes && spent > seconds) break;
    observer.progress(done++, static_cast<int>(probes.size()), probe.model.name);
    for (MeasuredStepTime& step : measure_steps(engine, probe.model, probe.batches, devices, sampling, observer)) {
      step.model.name = probe.model.name;
      steps.rows.push_back(fit_row(step));
      steps.measured.push_back(std::move(step));
    }
  }
  return steps;
}

ErrorSummary errors_in(std::string name, const std::vector<double>& logs) {
  ErrorSummary summary;
  summary.name = std::move(name), summary.rows = static_cast<int64_t>(logs.size());
  std::vector<double> sizes;
  for (const double log : logs) {
    sizes.push_back(std::abs(std::expm1(log)));
    summary.bias += std::expm1(log) / static_cast<double>(logs.size());
  }
  if (sizes.empty()) return summary;
  summary.mean = mean_of(sizes), summary.p95 = percentile(sizes, 95), summary.worst = percentile(sizes, 100);
  return summary;
}

// Predicts each model by a fit to the others; the interval's factor is from these errors.
void judge(const Steps& steps, const Rates& prior, const Rates& fitted, CalibrationOutcome& outcome) {
  std::vector<double> inside, left_out, sds;
  std::vector<PlanAccount> accounts;
  for (size_t i = 0; i < steps.rows.size(); ++i) {
    const FitRow& row = steps.rows[i];
    inside.push_back(std::log(account_of(row.work, fitted, PipelineMethod::bound).step_us() / row.step_us));
  }
  std::map<std::string, Rates> without;
  for (size_t i = 0; i < steps.rows.size(); ++i) {
    const std::string& model = steps.measured[i].model.name;
    if (!without.count(model)) {
      std::vector<const FitRow*> others;
      for (size_t j = 0; j < steps.rows.size(); ++j)
        if (steps.measured[j].model.name != model) others.push_back(&steps.rows[j]);
      without[model] = fit_rates(others, prior, &RateField::own_prior_sd);
    }
    accounts.push_back(account_of(steps.rows[i].work, without[model], PipelineMethod::bound));
    left_out.push_back(std::log(accounts.back().step_us() / steps.rows[i].step_us));
    sds.push_back(accounts.back().relative_sd);
  }
  outcome.calibration.interval_factor = std::max(0.1, interval_factor(left_out, sds, 0.95));
  outcome.in_sample = errors_in("in the sample", inside);
  outcome.left_out_model = errors_in("model left out", left_out);
  for (size_t i = 0; i < steps.rows.size(); ++i) {
    const MeasuredStepTime& step = steps.measured[i];
    outcome.steps.push_back({step.model.name, step.plan.global_batch, step.plan.mesh.dp, step.step_us,
                             accounts[i].step_us(), interval_of(accounts[i], outcome.calibration.interval_factor)});
    const Interval& interval = outcome.steps.back().interval;
    outcome.coverage +=
        (step.step_us >= interval.low && step.step_us <= interval.high) / static_cast<double>(steps.rows.size());
  }
}

MachineSpec machine_for(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error) ? load_machine(path) : run_topo({}).machine;
}

std::vector<int64_t> device_counts(int most) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= most; n *= 2) counts.push_back(n);
  return counts;
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
                : cpu              ? std::min(4, machine.num_cores)
                                   : std::max(1, static_cast<int>(machine.devices.size()));
  const std::string math(to_string(config.engine.math));
  const std::string name = cpu || machine.devices.empty() ? machine.cpu_name : machine.devices.front().name;
  Rates prior = cpu ? cpu_prior(machine.num_cores) : gpu_prior(name, math);
  if (devices > 1) measure_all_reduce(config, devices, prior);
  if (!cpu) config.engine.launch = LaunchMode::graph;
  const Steps steps =
      measure_probes(config.engine, cpu ? cpu_probes() : gpu_probes(), device_counts(devices), cpu ? 35 : 75, observer);
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
                          ? fmt::format("least squares over {} steps of {} models", steps.rows.size(),
                                        cpu ? cpu_probes().size() : gpu_probes().size())
                      : was_measured ? fmt::format("all-reduce of {} devices", devices)
                                     : std::string(field.meaning);
  }
  calibration.host = machine.host, calibration.device_name = name, calibration.math = math;
  calibration.device_kind = cpu ? "cpu-virtual" : "cuda";
  calibration.software = "amdahl";
  if (!cpu && !machine.devices.empty()) calibration.memory_bytes = machine.devices.front().memory_bytes;
  judge(steps, prior, fitted, outcome);
  calibration.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!config.machine.empty()) {
    save_machine(config.machine, machine);
    save_text(config.machine, with_calibrations(read_file(config.machine, Cause::usage), {calibration}) + "\n");
    outcome.machine_file = config.machine;
  }
  return outcome;
}

}  // namespace amdahl

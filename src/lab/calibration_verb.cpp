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
  std::vector<const char*> plans;  // besides one device
};

ModelSpec mlp(const std::vector<int64_t>& widths, int64_t inputs = 50, double dropout = 0.2) {
  ModelSpec model;
  model.name = fmt::format("mlp-{}", inputs);
  model.input_width = inputs;
  for (const int64_t width : widths) {
    model.name += fmt::format("-{}", width);
    LayerSpec layer;
    layer.units = width, layer.dropout = dropout;
    model.layers.push_back(layer);
  }
  LayerSpec last;
  last.units = 3, last.activation = Activation::none;
  model.layers.push_back(last);
  return model;
}

/// One layer of a kind over sequences of [steps, 40] values, a pool where it returns sequences, and a dense layer.
ModelSpec sequences(const char* name, LayerSpec layer, int64_t count, int64_t steps) {
  constexpr int64_t kFeatures = 40;
  ModelSpec model;
  model.name = name;
  model.input_width = steps * kFeatures, model.input_shape = {steps, kFeatures};
  LayerSpec other;
  other.activation = Activation::none;
  if (layer.kind == LayerKind::transformer_block) {
    other.kind = LayerKind::projection, other.units = layer.units;
    model.layers.push_back(other);
  }
  for (int64_t i = 0; i < count; ++i) model.layers.push_back(layer);
  other.units = 0;
  if (layer.kind == LayerKind::transformer_block)
    for (const LayerKind kind : {LayerKind::layer_norm, LayerKind::pool}) {
      other.kind = kind;
      model.layers.push_back(other);
    }
  other.kind = LayerKind::dense, other.units = 3;
  model.layers.push_back(other);
  return model;
}

ModelSpec encoder(int64_t units, int64_t heads, int64_t blocks, int64_t steps) {
  LayerSpec block;
  block.kind = LayerKind::transformer_block, block.units = units, block.heads = heads;
  block.activation = Activation::none;
  return sequences("encoder", block, blocks, steps);
}

ModelSpec recurrent(LayerKind kind, int64_t units, int64_t steps) {
  LayerSpec layer;
  layer.kind = kind, layer.units = units, layer.last_step_only = true, layer.activation = Activation::none;
  return sequences(kind == LayerKind::lstm ? "lstm" : "gru", layer, 1, steps);
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
  return {{mlp({320, 160, 80}), {16, 64, 256}, {"dp2", "dp4", "tp2"}},
          {mlp({2048, 512}), {32, 128}, {"dp2", "dp4"}},
          {encoder(128, 2, 2, 64), {4, 8}, {"dp2", "dp4", "pp2,m4"}},
          {recurrent(LayerKind::lstm, 160, 48), {8, 32}, {"dp2", "dp4"}},
          {mlp({256, 128}, 600), {32, 256}, {"dp2", "dp4"}},
          {mlp({768, 512}, 3000), {32, 128}, {"dp2", "dp4"}},
          {small_gpt(128, 4, 2, 64, 512), {2, 8}, {"dp2", "tp2"}},
          {mlp({768, 768, 384}), {16, 128, 512}, {"dp2", "tp2"}},
          {recurrent(LayerKind::gru, 192, 64), {16}, {"dp2", "dp4"}},
          {mlp({512, 512, 512, 512}), {32, 256}, {"dp2", "dp4,zero1", "pp2,m4"}}};
}

std::vector<Probe> gpu_probes() {
  return {{mlp({256, 128, 64}), {64, 1024, 8192}, {"dp2", "dp4", "dp8"}},
          {mlp({1024, 1024, 512}), {64, 1024, 8192}, {"dp2", "tp2"}},
          {mlp({4096, 4096}), {64, 1024, 8192}, {"dp2", "dp4", "dp8", "tp2"}},
          {mlp({8192, 2048}), {256, 4096}, {"dp2", "dp2,zero1"}},
          {mlp({512, 512, 512, 512, 512, 512}), {64, 4096}, {"dp2", "pp2,m4"}},
          {small_gpt(512, 8, 4, 512, 8192), {4, 16}, {"dp2", "tp2", "pp2,m4"}},
          {small_gpt(768, 12, 4, 1024, 50257), {1, 4, 8}, {}},
          {small_gpt(1024, 16, 2, 1024, 50257), {2, 8}, {"dp2", "tp2"}}};
}

Rates cpu_prior(int cores) {
  Rates rates;
  rates.gemm_tflops = 0.1, rates.batched_gemm_tflops = 0.06;
  rates.gemm_half_waves = 1, rates.gemm_units = 1, rates.gemm_tile = 16;
  rates.gemm_gbps = 15, rates.alias_ps = 2400, rates.crowd_us = 50, rates.cache_mb = 8, rates.spill = 1;
  rates.memory_gbps = 25, rates.optimizer_ps = 350;
  rates.launch_us = rates.softmax_launch_us = 2, rates.head_us = 20, rates.input_us = 10, rates.step_us = 20;
  rates.queue_exponent = 1;  // one thread is host and device
  rates.collective_launch_us = 2, rates.collective_wait_us = 10;
  rates.tp_alpha_us = rates.dp_alpha_us = rates.pp_alpha_us = 20, rates.tp_gbps = rates.dp_gbps = rates.pp_gbps = 3;
  rates.interference = 0.5, rates.sharing = 0.05, rates.shared_cores = cores;
  return rates;
}

Rates gpu_prior(const std::string& name, const std::string& math) {
  const GpuKind* kind = gpu_kind_of(name);
  Rates rates = rates_of_kind(kind ? *kind : find_gpu_kind("h100"), math);
  rates.queue_exponent = 1;  // nodes of a graph: one after another
  rates.step_us = 5;
  rates.gemm_gbps = 0.8 * (kind ? *kind : find_gpu_kind("h100")).memory_gbps;
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

// Steps of a run: enough of short ones, by what is expected, that their times are stable.
StepSampling sampling_for(const ModelSpec& model, int64_t batch, const Rates& prior) {
  constexpr double kRunUs = 30e3;
  ParallelPlan plan = parse_plan("dp1");
  plan.global_batch = batch;
  const double step_us =
      account_of(make_workload(model, plan, amdahl_profile()), prior, PipelineMethod::bound).step_us();
  const int steps = static_cast<int>(std::clamp(kRunUs / step_us, 6.0, 200.0));
  return {5, std::max(2, steps / 5), steps};
}

Steps measure_probes(const EngineConfig& engine, const std::vector<Probe>& probes, int devices, const Rates& prior,
                     double seconds, Observer& observer) {
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
      for (MeasuredStepTime& step :
           measure_steps(engine, probe.model, {batch}, plans, sampling_for(probe.model, batch, prior), 0, observer)) {
        steps.rows.push_back(fit_row(step, static_cast<int>(prior.shared_cores)));
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
    outcome.steps.push_back({step.model.name, format_plan(step.plan), step.plan.global_batch, step.step_us,
                             accounts[i].step_us(), interval_of(accounts[i], outcome.calibration.interval_factor),
                             parts_of_step(accounts[i], step.parts, step.plan.mesh)});
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
  if (devices > 1) measure_all_reduce(config, cpu ? std::min(devices, std::max(2, machine.num_cores)) : devices, prior);
  if (!cpu) config.engine.launch = LaunchMode::graph;
  const Steps steps = measure_probes(config.engine, cpu ? cpu_probes() : gpu_probes(), devices, prior,
                                     config.seconds > 0 ? config.seconds
                                     : cpu              ? 40
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
  return outcome;
}

}  // namespace amdahl

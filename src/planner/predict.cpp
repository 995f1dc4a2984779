// Adds the terms up.
#include "planner/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"
#include "plan/plan_rules.h"
#include "planner/terms.h"

namespace amdahl {
namespace {

constexpr double kForwardShare = 1.0 / 3;  // one of three products of the same size
constexpr double kActivationPasses = 3;    // over a layer's activations, in LayerWork::bytes

// Relative standard deviation of each part of the account, before the calibration's factor: how far terms were off on
// steps that they were not fitted to.
constexpr double kComputeSd = 0.05, kHostSd = 0.03, kHostSdPerDoubling = 0.06, kTensorSd = 0.2, kDataSd = 0.3,
                 kTransferSd = 0.2, kOptimizerSd = 0.2;
// Of GPUs, whose launches are nodes of a graph: one time stands for kernels of all kinds. From steps of models that
// were left out of fits to calibrations of H100s, relative to the rest: steps of launches alone are off by a little
// more than those of products, and updates and gradients, whose bytes are known, by less than elsewhere.
constexpr double kNodeSd = 0.06, kNodeTensorSd = 0.15, kNodeDataSd = 0.15, kNodeOptimizerSd = 0.1;
// Of layers that no calibration has (probes.cpp): convolutions of resnet18 were 27 % off on an H100. Of recurrent
// layers on GPUs: 5 to 21 and 37 % off at 8 to 16 and 512 rows, the latter too fast.
constexpr double kUnseenSd = 0.1, kRecurrentSd = 0.2;

// An all-reduce of a group of `devices` on a machine whose `all` devices may share a path.
double group_all_reduce_us(double bytes, int devices, int all, const GroupPath& path, const Rates& rates) {
  const double shared = rates.link_total_gbps > 0 ? std::min(path.gbps, rates.link_total_gbps / all) : path.gbps;
  if (devices < 2) return 0;
  const double latency =
      path.alpha_us + crowd_us(all, rates) + 2 * (devices - 1) * rates.hop_us + ramp_us(bytes, rates);
  return all_reduce_us(bytes, devices, latency, shared);
}

// `weight_gbps`: rate of weights in matrix products.
void add_layer(const LayerWork& layer, const Mesh& mesh, const Rates& rates, double weight_gbps, StageTime& sum) {
  const int tp = mesh.tp;
  const double times = layer.repeats, work = 1 + layer.repeated_share;
  double gemm = recurrent_us(layer.recurrent, rates);
  for (const GemmWork& one : layer.gemms)
    gemm += work * gemm_step_us(one, layer.has_input_gradient, rates, weight_gbps);
  const double attention = (1 + layer.repeated_attention) * attention_us(layer.attention, rates);
  const double memory = work * memory_us(layer.bytes, rates);
  const double calls = layer.collectives * (1 + layer.repeated_collectives);
  const GroupPath path = path_of(tp, 1, {rates.tp_alpha_us, rates.tp_gbps}, rates);
  const double collectives =
      calls > 0 ? calls * group_all_reduce_us(layer.collective_bytes, tp, mesh.size(), path, rates) : 0;
  const double device = gemm + attention + memory + collectives, host = host_us(layer, tp, rates);
  sum.gemm_us += times * gemm;
  sum.attention_us += times * attention;
  sum.memory_us += times * memory;
  sum.compute_us += times * (gemm + attention + memory);
  sum.collectives_us += times * collectives;
  sum.host_us += times * host;
  const double total = queue_us(device, host, rates);
  sum.gaps_us += times * (total - device);
  sum.weight_us += times * total * layer.weight_share;
  // Of three products of the same size one is forward and one the gradient of the weights.
  const double products = layer.has_input_gradient ? 3 : 2, one = total;
  sum.gradients.push_back(
      {one * (1 - 1 / products), one / products, layer.parameters, layer.repeats, layer.splits_gradient});
}

// An all-reduce is a reduction and a gather, each half of it. Threads move unequal numbers of bytes in them; the first
// call waits for the slowest rank, and further ones follow each other as the sums of tensor parallelism do.
double data_us(const Workload& work, double parameters, const Rates& rates) {
  const int all = work.mesh.size();
  const GroupPath path = path_of(work.mesh.dp, work.mesh.tp, {rates.dp_alpha_us, rates.dp_gbps}, rates);
  const auto all_reduce = [&](double bytes) { return group_all_reduce_us(bytes, work.mesh.dp, all, path, rates); };
  const double whole = all_reduce(parameters * work.gradient_bytes);
  if (rates.shared_cores <= 0) return (work.reductions() + work.gathers()) / 2 * whole;
  const double first = all_reduce(0);
  const double further = group_all_reduce_us(0, work.mesh.dp, all, {rates.tp_alpha_us, rates.tp_gbps}, rates);
  return first + (work.data_calls() - 1) * further + work.thread_passes() * (whole - first);
}

// Errors of kernels of a graph have one sign in a step: their shapes are alike.
double node_sd(const PlanAccount& account) {
  const double layers = (kComputeSd * account.compute_us + kNodeSd * account.gaps_us) *
                        (1 + account.bubble_us / std::max(account.compute_us + account.gaps_us, 1e-9));
  const double communication = std::hypot(kNodeTensorSd * account.exposed_tp_us, kNodeDataSd * account.exposed_dp_us,
                                          kTransferSd * account.exposed_pp_us);
  return std::hypot(layers, communication, kNodeOptimizerSd * account.optimizer_us) / account.step_us();
}

double host_sd(const PlanAccount& account, int tp) {
  const double host = kHostSd + kHostSdPerDoubling * std::log2(tp);
  // Waiting for the host and the device's work are one time where the host is slower: its uncertainty is the host's.
  const double busy = account.compute_us + account.exposed_tp_us + account.gaps_us;
  const double host_part = busy > 0 ? account.gaps_us / busy : 0;
  const double device =
      std::hypot(kComputeSd * account.compute_us, kTensorSd * account.exposed_tp_us) / std::max(busy, 1e-9);
  // The host decides as soon as a fair part of the time is waiting for it.
  const double weight = std::min(1.0, 3 * host_part);
  const double layers = std::hypot((1 - weight) * device, weight * host) * (busy + account.bubble_us);
  const double rest = std::hypot(kDataSd * account.exposed_dp_us, kTransferSd * account.exposed_pp_us,
                                 kOptimizerSd * account.optimizer_us);
  return std::hypot(layers, rest) / account.step_us();
}

double relative_sd(const PlanAccount& account, const Workload& work, const Rates& rates) {
  const bool graph = rates.shared_cores <= 0 && rates.queue_exponent == 1;
  const double known = graph ? node_sd(account) : host_sd(account, work.mesh.tp);
  return std::hypot(known, work.has_unseen ? kUnseenSd : 0, graph && work.has_recurrent ? kRecurrentSd : 0);
}

std::vector<StageCost> costs_of(const std::vector<StageTime>& times, double handoff) {
  std::vector<StageCost> costs;
  for (const StageTime& time : times)
    costs.push_back(
        {time.total_us() * kForwardShare + handoff, time.total_us() * (1 - kForwardShare) + handoff, time.weight_us});
  return costs;
}

// Virtual devices share the last cache.
double cache_sharers(const Workload& work, const Rates& rates) { return rates.shared_cores > 0 ? work.mesh.size() : 1; }

// Of weights and updates: all that a step touches lies between two uses.
Rates rates_for(const Workload& work, const Rates& rates) {
  return spilled(rates, work.touched_bytes() * cache_sharers(work, rates));
}

// Of weights in products: an update lies before the first micro-batch, and only a micro-batch before each other one.
double weight_rate(const Workload& work, const Rates& rates) {
  const double first = rates_for(work, rates).gemm_gbps;
  const double other = spilled(rates, work.touched_bytes(false) * cache_sharers(work, rates)).gemm_gbps;
  const auto count = static_cast<double>(work.micro_batches);
  return first > 0 && count > 1 ? count / (1 / first + (count - 1) / other) : first;
}

// Of activations: what the layer touches.
Rates rates_for(const Workload& work, const LayerWork& layer, const Rates& rates) {
  return streamed(rates, layer.bytes / kActivationPasses * cache_sharers(work, rates));
}

// Communication of gradients behind backward, and slower backward.
Overlap data_overlap(const Workload& work, const StageTime& busiest, double communication, double backward,
                     double parameters, const Rates& rates) {
  if (rates.shared_cores > 0) {
    // Of ZeRO 2 and 3 nothing is hidden: copies and sums of every layer take the processors from backward.
    if (work.zero_stage > 1) return {communication, 0};
    const int buckets = static_cast<int>(std::ceil(parameters * work.gradient_bytes / work.bucket_bytes));
    return overlap_of(communication, backward, buckets, rates);
  }
  // Of the micro-batches that have any.
  const auto passes = work.zero_stage < 3 ? work.reductions() : static_cast<double>(work.micro_batches);
  GradientBuckets buckets;
  buckets.parameters = work.bucket_bytes / work.gradient_bytes;
  buckets.all_reduce_us = [&](double count) { return data_us(work, count, rates) / passes; };
  buckets.update_us_per_parameter = optimizer_us(1, rates_for(work, rates)) / (work.zero_stage > 0 ? work.mesh.dp : 1);
  buckets.updates_within = work.zero_stage == 1;
  buckets.weights_last =
      buckets.updates_within && std::all_of(busiest.gradients.begin(), busiest.gradients.end(),
                                            [](const GradientTime& layer) { return layer.by_pieces; });
  buckets.by_layer = work.zero_stage > 1;
  const Overlap one = overlap_of(busiest.gradients, buckets, rates);
  return {passes * one.exposed_us, passes * one.slowed_us};
}

// The bound, with ranks that slow each other as often as they work at once on average.
PipelineCost shared_bound(const Workload& work, const std::vector<StageCost>& ranks, double transfer,
                          const Rates& rates) {
  PipelineCost cost = pipeline_bound(work.schedule, work.chunks, ranks, work.micro_batches, transfer);
  cost.slowdown = sharing_factor(work.mesh.size(), rates);
  if (work.mesh.pp > 1 && cost.makespan_us > 0) {
    double sum = 0;
    for (const StageCost& rank : ranks) sum += rank.total_us();
    const double busy = sum * static_cast<double>(work.micro_batches) / cost.makespan_us / work.mesh.pp;
    cost.slowdown = pipeline_sharing(work.mesh.pp, work.mesh.dp * work.mesh.tp, busy, rates);
  }
  cost.bubble_us *= cost.slowdown;
  return cost;
}

// Costs of a step's pipeline. `handoff`: a rank's own time for each micro-batch in each direction.
PipelineCost pipeline_cost(const Workload& work, const std::vector<StageTime>& stages,
                           const std::vector<StageTime>& ranks, double handoff, double transfer, const Rates& rates,
                           PipelineMethod method) {
  if (work.mesh.pp == 1 || method == PipelineMethod::bound)
    return shared_bound(work, costs_of(ranks, handoff * work.chunks), transfer, rates);
  const int devices_of_rank = work.mesh.dp * work.mesh.tp;
  const double alone = sharing_factor(devices_of_rank, rates);
  std::vector<double> slowdowns = pipeline_slowdowns(work.mesh.pp, devices_of_rank, rates);
  if (slowdowns.back() == 1) slowdowns.clear();
  std::vector<StageCost> costs = costs_of(stages, handoff);
  for (StageCost& cost : costs) cost.forward_us *= alone, cost.backward_us *= alone, cost.weight_us *= alone;
  PipelineCost cost = pipeline_simulated(work.schedule, work.chunks, costs, work.micro_batches, transfer, slowdowns);
  cost.slowdown *= alone;
  return cost;
}

}  // namespace

StageTime& StageTime::operator+=(const StageTime& other) {
  for (double StageTime::*part :
       {&StageTime::compute_us, &StageTime::collectives_us, &StageTime::gaps_us, &StageTime::gemm_us,
        &StageTime::attention_us, &StageTime::memory_us, &StageTime::host_us, &StageTime::weight_us})
    this->*part += other.*part;
  gradients.insert(gradients.end(), other.gradients.begin(), other.gradients.end());
  return *this;
}

std::vector<StageTime> stage_times(const Workload& work, const Rates& given) {
  const double weight_gbps = weight_rate(work, given);
  std::vector<StageTime> stages;
  for (const StageWork& stage : work.stages) {
    stages.emplace_back();
    for (const LayerWork& layer : stage.layers)
      add_layer(layer, work.mesh, rates_for(work, layer, given), weight_gbps, stages.back());
  }
  return stages;
}

PipelineMethod fit_method(const Rates& rates) {
  return rates.shared_cores > 0 ? PipelineMethod::simulation : PipelineMethod::bound;
}

std::vector<StageTime> rank_times(const Workload& work, const std::vector<StageTime>& stages) {
  if (work.mesh.pp == 1) return stages;
  std::vector<StageTime> ranks(static_cast<size_t>(work.mesh.pp));
  for (size_t stage = 0; stage < stages.size(); ++stage)
    ranks[static_cast<size_t>(rank_of_stage(work.schedule, work.mesh.pp, static_cast<int>(stage)))] += stages[stage];
  return ranks;
}

PlanAccount account_of(const Workload& work, const std::vector<StageTime>& stages, const Rates& rates,
                       PipelineMethod method) {
  const std::vector<StageTime> ranks = rank_times(work, stages);
  const int stride = work.mesh.dp * work.mesh.tp;
  const GroupPath path = transfer_path(stride, work.mesh.size(), {rates.pp_alpha_us, rates.pp_gbps}, rates);
  const double alpha = path.alpha_us + crowd_us(work.mesh.size(), rates);
  // Ranks that share cores wake each other for every micro-batch: their latency is the rank's own time.
  const double handoff = work.mesh.pp > 1 && rates.shared_cores > 0 ? alpha : 0;
  const double transfer = work.mesh.pp > 1 ? transfer_us(work.transfer_bytes, alpha - handoff, path.gbps) : 0;
  const PipelineCost pipeline = pipeline_cost(work, stages, ranks, handoff, transfer, rates, method);
  const StageTime& busiest = ranks[static_cast<size_t>(pipeline.busiest)];
  const double sharing = pipeline.slowdown;
  const double micro_batches = static_cast<double>(work.micro_batches) * sharing;
  PlanAccount account;
  account.compute_us = micro_batches * busiest.compute_us;
  account.exposed_tp_us = micro_batches * busiest.collectives_us;
  account.gaps_us = micro_batches * busiest.gaps_us + rates.step_us;
  account.exposed_pp_us = pipeline.transfer_us + 2 * handoff * micro_batches * work.chunks;
  account.bubble_us = pipeline.bubble_us;
  const std::vector<double> held = work.rank_parameters();
  const double parameters = *std::max_element(held.begin(), held.end());
  const int updating = work.zero_stage > 0 ? work.mesh.dp : 1;
  account.optimizer_us = rates.launch_us + sharing_factor(work.mesh.size(), rates) *
                                               optimizer_us(parameters / updating, rates_for(work, rates));
  const double communication = data_us(work, parameters, rates) * oversubscription(work.mesh.size(), rates);
  account.exposed_dp_us = communication;
  if (work.overlap && work.mesh.dp > 1) {
    const double backward = busiest.total_us() * sharing * (1 - kForwardShare);
    const Overlap overlap = data_overlap(work, busiest, communication, backward, parameters, rates);
    account.exposed_dp_us = overlap.exposed_us;
    account.slowed_us = overlap.slowed_us;
    account.compute_us += overlap.slowed_us;
    account.hidden_dp_us = std::max(0.0, communication - overlap.exposed_us);
  }
  account.relative_sd = relative_sd(account, work, rates);
  return account;
}

PlanAccount account_of(const Workload& work, const Rates& rates, PipelineMethod method) {
  return account_of(work, stage_times(work, rates), rates, method);
}

Interval interval_of(const PlanAccount& account, double interval_factor) {
  const double half = kNormal95 * interval_factor * account.relative_sd;
  return {account.step_us() * std::exp(-half), account.step_us() * std::exp(half)};
}

Estimate predicted_speedup(const PlanAccount& one, const PlanAccount& several, double interval_factor) {
  constexpr double kSharedError = 0.8;  // correlation
  const double a = one.relative_sd, b = several.relative_sd, ratio = one.step_us() / several.step_us();
  const double half = kNormal95 * interval_factor * std::sqrt(std::max(0.0, a * a + b * b - 2 * kSharedError * a * b));
  return {ratio, Interval{ratio * std::exp(-half), ratio * std::exp(half)}};
}

SoftwareProfile profile_of(const Calibration& calibration) {
  const std::string& software = calibration.software;
  if (software == "amdahl" && calibration.device_kind == "cuda") return amdahl_gpu_profile(calibration.math);
  if (software == "amdahl") return amdahl_profile();
  if (software == "megatron") return megatron_profile();
  throw Error(Cause::usage, fmt::format("the calibration is of unknown software '{}'", software),
              choices_hint(software, {"amdahl", "megatron"}));
}

MemorySetting memory_setting_of(const Calibration& calibration) {
  MemorySetting setting;
  setting.gpu = calibration.device_kind == "cuda";
  for (const MathMode math : {MathMode::tf32, MathMode::bf16, MathMode::fp16})
    if (calibration.math == to_string(math)) setting.math = math;
  return setting;
}

StepPrediction predict_workload(const Workload& work, const std::vector<StageTime>& stages, const PlanMemory& memory,
                                const Rates& rates, const Calibration& calibration, PipelineMethod method) {
  StepPrediction prediction;
  prediction.account = account_of(work, stages, rates, method);
  prediction.step_us = prediction.account.step_us();
  prediction.interval = interval_of(prediction.account, calibration.interval_factor);
  prediction.memory = memory;
  const double rows = work.micro_rows * static_cast<double>(work.micro_batches * work.mesh.dp);
  prediction.rows_per_second = rows / prediction.step_us * 1e6;
  prediction.fits = calibration.memory_bytes == 0 || memory.total() <= calibration.memory_bytes;
  return prediction;
}

StepPrediction predict_step(const ModelSpec& model, const ParallelPlan& plan, const Calibration& calibration) {
  const Workload work = make_workload(model, plan, profile_of(calibration));
  const Rates rates = rates_of(calibration);
  StepPrediction prediction =
      predict_workload(work, stage_times(work, rates), plan_memory(plan, model, memory_setting_of(calibration)), rates,
                       calibration, PipelineMethod::simulation);
  prediction.plan = plan;
  return prediction;
}

}  // namespace amdahl

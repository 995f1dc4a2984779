// Adds the terms up.
#include "planner/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/units.h"
#include "planner/terms.h"

namespace amdahl {
namespace {

constexpr double kForwardShare = 1.0 / 3;  // one of three products of the same size
constexpr double kNormal95 = 1.96;

// Relative standard deviation of each part of the account, before the calibration's factor: how far terms were off on
// steps that they were not fitted to.
constexpr double kComputeSd = 0.05, kHostSd = 0.03, kHostSdPerDoubling = 0.06, kTensorSd = 0.2, kDataSd = 0.3,
                 kTransferSd = 0.2, kOptimizerSd = 0.2;

struct LayerTime {
  double device_us = 0;  // without collectives
  double collectives_us = 0;
  double total_us = 0;  // with waiting for the host
};

LayerTime time_of(const LayerWork& layer, int tp, const Rates& rates) {
  LayerTime time;
  for (const GemmWork& gemm : layer.gemms) time.device_us += gemm_step_us(gemm, layer.has_input_gradient, rates);
  time.device_us += attention_us(layer.attention, rates) + memory_us(layer.bytes, rates);
  if (layer.collectives > 0)
    time.collectives_us =
        layer.collectives * all_reduce_us(layer.collective_bytes, tp, rates.tp_alpha_us, rates.tp_gbps);
  time.total_us = queue_us(time.device_us + time.collectives_us, host_us(layer, tp, rates), rates);
  return time;
}

struct StageTime {
  double compute_us = 0, collectives_us = 0, gaps_us = 0;  // of one micro-batch
  double total_us() const { return compute_us + collectives_us + gaps_us; }
};

StageTime time_of_stage(const StageWork& stage, int tp, const Rates& rates) {
  StageTime sum;
  for (const LayerWork& layer : stage.layers) {
    const LayerTime one = time_of(layer, tp, rates);
    sum.compute_us += layer.repeats * one.device_us;
    sum.collectives_us += layer.repeats * one.collectives_us;
    sum.gaps_us += layer.repeats * (one.total_us - one.device_us - one.collectives_us);
  }
  return sum;
}

double data_us(const Workload& work, double parameters, const Rates& rates) {
  return all_reduce_us(parameters * work.gradient_bytes, work.mesh.dp, rates.dp_alpha_us, rates.dp_gbps);
}

double relative_sd(const PlanAccount& account, int tp) {
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

}  // namespace

PlanAccount account_of(const Workload& work, const Rates& rates, PipelineMethod method) {
  const int tp = work.mesh.tp;
  std::vector<StageTime> stages;
  std::vector<StageCost> costs;
  for (const StageWork& stage : work.stages) {
    stages.push_back(time_of_stage(stage, tp, rates));
    const double total = stages.back().total_us();
    costs.push_back({total * kForwardShare, total * (1 - kForwardShare)});
  }
  const double transfer = stages.size() > 1 ? transfer_us(work.transfer_bytes, rates.pp_alpha_us, rates.pp_gbps) : 0;
  const PipelineCost pipeline = method == PipelineMethod::bound ? pipeline_bound(costs, work.micro_batches, transfer)
                                                                : pipeline_simulated(work.schedule, work.chunks, costs,
                                                                                     work.micro_batches, transfer);
  const StageTime& busiest = stages[static_cast<size_t>(pipeline.busiest)];
  const auto micro_batches = static_cast<double>(work.micro_batches);
  PlanAccount account;
  account.compute_us = micro_batches * busiest.compute_us;
  account.exposed_tp_us = micro_batches * busiest.collectives_us;
  account.gaps_us = micro_batches * busiest.gaps_us + rates.step_us;
  account.exposed_pp_us = pipeline.transfer_us;
  account.bubble_us = pipeline.bubble_us;
  double parameters = 0;
  for (const StageWork& stage : work.stages) parameters = std::max(parameters, stage.parameters);
  const int updating = work.zero_stage > 0 ? work.mesh.dp : 1;
  account.optimizer_us = optimizer_us(parameters / updating, rates);
  const double communication = data_us(work, parameters, rates);
  account.exposed_dp_us = communication;
  if (work.overlap && work.mesh.dp > 1) {
    constexpr double kBucketBytes = 25 << 20;
    const int buckets = static_cast<int>(std::ceil(parameters * work.gradient_bytes / kBucketBytes));
    const double backward = busiest.total_us() * (1 - kForwardShare);
    const Overlap overlap = overlap_of(communication, backward, buckets, rates);
    account.exposed_dp_us = overlap.exposed_us;
    account.compute_us += overlap.slowed_us;
    account.hidden_dp_us = communication - overlap.exposed_us;
  }
  account.relative_sd = relative_sd(account, tp);
  return account;
}

SoftwareProfile profile_of(const std::string& software) {
  if (software == "amdahl") return amdahl_profile();
  if (software == "megatron") return megatron_profile();
  throw Error(Cause::usage, fmt::format("the calibration is of unknown software '{}'", software),
              choices_hint(software, {"amdahl", "megatron"}));
}

StepPrediction predict_step(const ModelSpec& model, const ParallelPlan& plan, const Calibration& calibration) {
  const Workload work = make_workload(model, plan, profile_of(calibration.software));
  StepPrediction prediction;
  prediction.plan = plan;
  prediction.account = account_of(work, rates_of(calibration), PipelineMethod::simulation);
  prediction.step_us = prediction.account.step_us();
  const double half = kNormal95 * calibration.interval_factor * prediction.account.relative_sd;
  prediction.interval = {prediction.step_us * std::exp(-half), prediction.step_us * std::exp(half)};
  const MemoryParts memory = memory_of(work);
  prediction.memory = {memory.parameters, memory.gradients, memory.optimizer, memory.activations};
  prediction.rows_per_second = static_cast<double>(plan.global_batch) / prediction.step_us * 1e6;
  prediction.fits = calibration.memory_bytes == 0 || memory.total() <= static_cast<double>(calibration.memory_bytes);
  return prediction;
}

}  // namespace amdahl

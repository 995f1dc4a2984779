// Predicted step of a plan: time with its interval, memory, and where the time goes.
#pragma once

#include <string>
#include <vector>

#include "amdahl/planner.h"
#include "parallel/plan_memory.h"
#include "planner/rates.h"
#include "planner/terms.h"
#include "planner/workload.h"

namespace amdahl {

inline constexpr double kNormal95 = 1.96;  // quantile of a normal distribution for a 95 % interval

/// Which cost of a pipeline: the bound is fast, for ranking many plans and for fits; the simulation is for the rest.
enum class PipelineMethod { bound, simulation };
/// Of fits: the bound knows nothing of the order in which ranks share cores.
PipelineMethod fit_method(const Rates& rates);

/// Times of one micro-batch on one stage or rank, in us; the parts of compute are given apart for explanations.
struct StageTime {
  double compute_us = 0, collectives_us = 0, gaps_us = 0;
  double gemm_us = 0, attention_us = 0, memory_us = 0, host_us = 0;  // the first three sum to compute_us
  double weight_us = 0;                                              // of the total: gradients of weights by themselves
  std::vector<GradientTime> gradients;                               // of its layers
  double total_us() const { return compute_us + collectives_us + gaps_us; }
  StageTime& operator+=(const StageTime& other);
};
std::vector<StageTime> stage_times(const Workload& work, const Rates& rates);
/// Sums of the stages of each pipeline rank.
std::vector<StageTime> rank_times(const Workload& work, const std::vector<StageTime>& stages);

/// Account of a step from its stages' times, in us. `relative_sd` is that of the whole before the calibration's factor.
PlanAccount account_of(const Workload& work, const std::vector<StageTime>& stages, const Rates& rates,
                       PipelineMethod method);
PlanAccount account_of(const Workload& work, const Rates& rates, PipelineMethod method);

/// 95 % interval of a step.
Interval interval_of(const PlanAccount& account, double interval_factor);

/// one / several with its 95 % interval: the errors of their rates, which are of the same device, are correlated.
Estimate predicted_speedup(const PlanAccount& one, const PlanAccount& several, double interval_factor);

/// The profile of a calibration's software, device and math. Error{usage} for unknown software.
SoftwareProfile profile_of(const Calibration& calibration);

/// What a calibrated machine's memory depends on: Adam, and what layers convert to before a GEMM.
MemorySetting memory_setting_of(const Calibration& calibration);

/// Step time with its 95 % interval, account, and whether it fits. `work`: as make_workload returns it; `memory`: as
/// plan_memory.
StepPrediction predict_workload(const Workload& work, const std::vector<StageTime>& stages, const PlanMemory& memory,
                                const Rates& rates, const Calibration& calibration, PipelineMethod method);
/// Error{usage} when the plan is not feasible.
StepPrediction predict_step(const ModelSpec& model, const ParallelPlan& plan, const Calibration& calibration);

}  // namespace amdahl

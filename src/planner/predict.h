// Predicted step of a plan: time with its interval, memory, and where the time goes.
#pragma once

#include <string>
#include <vector>

#include "amdahl/plan_prediction.h"
#include "planner/rates.h"
#include "planner/workload.h"

namespace amdahl {

/// Which cost of a pipeline: the bound is fast, for ranking many plans and for fits; the simulation is for the rest.
enum class PipelineMethod { bound, simulation };

/// Account of a step of this workload, in us. `relative_sd` is that of the whole before the calibration's factor.
PlanAccount account_of(const Workload& work, const Rates& rates, PipelineMethod method);

/// The profile that a calibration's `software` names. Error{usage} for others.
SoftwareProfile profile_of(const std::string& software);

/// Step time with its 95 % interval, memory of the fullest device, and account. Error{usage} when the plan does not
/// divide the model.
StepPrediction predict_step(const ModelSpec& model, const ParallelPlan& plan, const Calibration& calibration);

}  // namespace amdahl

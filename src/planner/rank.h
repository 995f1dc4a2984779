// Predicts and ranks all plans of a model, and says how many devices pay.
#pragma once

#include <vector>

#include "amdahl/planner.h"

namespace amdahl {

struct RankRequest {
  int64_t global_batch = 0;
  int most_devices = 1;  // every number of devices up to it
  int top = 10;          // plans that are returned for all device counts together
};

/// Predicts every feasible plan of the model (enumerate_plans) with micro-batches of equal size; fills ranking,
/// by_devices, why, num_plans and num_too_large of the outcome. Plans that fit into memory, fastest first; equal times
/// by fewer devices and fewer options. Error{usage} when no plan divides the model and batch, or none fits, with the
/// nearest.
void rank_plans(const ModelSpec& model, const Calibration& calibration, const RankRequest& request,
                PlanOutcome& outcome);

/// One plan with its terms: formula, inputs and source of each.
void explain_plan(const ModelSpec& model, const Calibration& calibration, const ParallelPlan& plan,
                  PlanOutcome& outcome);

/// For every batch and device count: the smallest number of parameters of a family of models of dense layers (three
/// hidden layers of w, w and w / 2 units, w from 16 to 16,384) from which on data parallelism (ddp) pays: `recommend`
/// of the predicted speedup's interval, as for plans. Sizes are tried in steps of 2^(1/4) in w.
std::vector<SizeThreshold> find_thresholds(const Calibration& calibration, const std::vector<int>& devices,
                                           const std::vector<int64_t>& batches);

}  // namespace amdahl

// Predicts and ranks all plans of a model, and says how many devices pay.
#pragma once

#include <vector>

#include "amdahl/planner.h"
#include "planner/enumerate.h"

namespace amdahl {

struct RankRequest {
  PlanSpace space;
  bool executable_only = false;  // plans that the trainer of this version runs
  int top = 10;                  // plans that are returned for all device counts together
};

/// Predicts every plan of the space; fills ranking, by_devices, why, num_plans and num_too_large of the outcome. Plans
/// that fit into memory, fastest first; equal times by fewer devices and fewer options. Error{usage} when no plan
/// divides the model and batch, or none fits, with the nearest.
void rank_plans(const ModelSpec& model, const Calibration& calibration, const RankRequest& request,
                PlanOutcome& outcome);

/// One plan with its terms: formula, inputs and source of each.
void explain_plan(const ModelSpec& model, const Calibration& calibration, const PlanChoice& choice,
                  PlanOutcome& outcome);

}  // namespace amdahl

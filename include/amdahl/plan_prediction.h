// Predicted step of a model under a plan on a machine that was calibrated. Plain data.
//
// Example:
//   const amdahl::StepPrediction step = outcome.ranking.front();
//   std::printf("%.1f ms [%.1f, %.1f]\n", step.step_us / 1e3, step.interval.low / 1e3, step.interval.high / 1e3);
#pragma once

#include <string>
#include <vector>

#include "amdahl/calibration.h"
#include "amdahl/plan.h"
#include "amdahl/plans.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Where the time of a step goes on the busiest device, in us. The parts sum to the step.
struct PlanAccount {
  double compute_us = 0;     // kernels of forward and backward
  double exposed_tp_us = 0;  // all-reduces of activations
  double exposed_pp_us = 0;  // transfers between stages that a device waits for
  double exposed_dp_us = 0;  // all-reduce of gradients that is not hidden
  double bubble_us = 0;      // waiting for other stages
  double optimizer_us = 0;
  double gaps_us = 0;       // waiting for the host's launches
  double slowed_us = 0;     // of compute: by communication behind it
  double hidden_dp_us = 0;  // communication behind backward; not part of the step
  double relative_sd = 0;   // of the sum
  double step_us() const {
    return compute_us + exposed_tp_us + exposed_pp_us + exposed_dp_us + bubble_us + optimizer_us + gaps_us;
  }
};

struct StepPrediction {
  ParallelPlan plan;
  double step_us = 0;
  Interval interval;  // 95 %
  PlanAccount account;
  PlanMemory memory;
  double rows_per_second = 0;
  bool fits = true;  // into the memory of a device; true when that is unknown
};

}  // namespace amdahl

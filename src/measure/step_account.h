// The step account: where the microseconds of a step went, over all ranks.
#pragma once

#include <vector>

#include "train/trainer.h"

namespace amdahl {

/// Parts of a step in us, averaged over ranks and instrumented steps. compute + exposed_communication + waiting +
/// launch_gaps + input + optimizer = step. `forward` and `backward` are the raw spans inside compute and launch gaps.
/// zero1 steps the optimizer within the communication of a bucket: its `optimizer` is 0, and that time counts as
/// communication, exposed as far as the compute stream waits for it.
struct AccountedStep {
  double step = 0, forward = 0, backward = 0;
  double compute = 0, exposed_communication = 0, waiting = 0, launch_gaps = 0, input = 0, optimizer = 0;
  double total_communication = 0;  // hidden and exposed, without waiting
};

/// `times[rank]` of one and the same step. A collective ends on all ranks together, so the rank with the shortest one
/// arrived last: what a rank's collective lasted beyond that is waiting for the slowest rank.
AccountedStep account_step(const std::vector<StepTimes>& times);

/// Mean of several accounted steps.
AccountedStep mean_account(const std::vector<AccountedStep>& steps);

}  // namespace amdahl

// The step account: a step's time divided into parts, over all ranks, by differences between steps with parts left out.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "measure/study/step_parts.h"

namespace amdahl {

/// Parts of a step in us, averaged over ranks. compute + exposed_communication + waiting + launch_gaps + input +
/// optimizer = step, and forward + backward = compute, by construction. Computed from PartTimes:
///   forward = forward_work, backward = backward_work - forward_work, optimizer = local_work - backward_work
///   launch_gaps = local - local_work; 0 for graph replay, whose gaps cannot be separated
///   exposed_communication + waiting = staged - local, divided in the proportion found in a stamped step's stalls
///   input = full - staged
/// Sums of tensor parallelism are taken out of forward and backward, in proportion. With pipeline stages the parts are
/// those of StageParts instead: waiting is the bubble, and what is in no part counts as launch gaps.
/// The time by which a rank's full step is shorter than the slowest rank's counts as waiting.
/// A time above that of the step with more parts is noise and is clamped to it: no part is negative, and the sum is
/// unchanged.
struct AccountedStep {
  double step = 0, forward = 0, backward = 0;
  double compute = 0, exposed_communication = 0, waiting = 0, launch_gaps = 0, input = 0, optimizer = 0;
  double total_communication = 0;               // hidden and exposed, without waiting; from stamps
  double launch_floor = 0, launch_kernels = 0;  // see PartTimes
  // Parts of the above by axis: exposed communication of each, and of `waiting` the bubble of a pipeline.
  double dp_communication = 0, tp_communication = 0, pp_communication = 0, bubble = 0;
  double noise = 0, fused_update = 0;  // see PartTimes
};

/// `times[rank]` of one run. A collective ends on all ranks together, so the rank on which it was shortest arrived
/// last; the excess of another rank's collective over that is waiting for the slowest rank.
AccountedStep account_step(const std::vector<PartTimes>& times);
/// The parts that every account has, as series of a record.
std::vector<Series> account_series(const AccountedStep& account);

}  // namespace amdahl

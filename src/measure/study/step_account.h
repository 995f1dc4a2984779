// The step account: where the microseconds of a step went, over all ranks, by differences of steps with parts left out.
#pragma once

#include <vector>

#include "measure/study/step_parts.h"

namespace amdahl {

/// Parts of a step in us, averaged over ranks. compute + exposed_communication + waiting + launch_gaps + input +
/// optimizer = step, and forward + backward = compute, by construction. See PartTimes for the times it is made from:
///   forward = forward_work, backward = backward_work - forward_work, optimizer = local_work - backward_work
///   launch_gaps = local - local_work; 0 where a graph is replayed, whose gaps cannot be left out
///   exposed_communication + waiting = staged - local, divided as a stamped step divides its stalls
///   input = full - staged
/// and the time by which a rank's full step is shorter than the slowest rank's is waiting.
/// A time above that of the step with more parts is noise and is taken for it: no part is negative, the sum stays.
struct AccountedStep {
  double step = 0, forward = 0, backward = 0;
  double compute = 0, exposed_communication = 0, waiting = 0, launch_gaps = 0, input = 0, optimizer = 0;
  double total_communication = 0;               // hidden and exposed, without waiting; from stamps
  double launch_floor = 0, launch_kernels = 0;  // see PartTimes
  double noise = 0, fused_update = 0;           // likewise
};

/// `times[rank]` of one run. A collective ends on all ranks together, so the rank with the shortest one arrived last:
/// what a rank's collective lasted beyond that is waiting for the slowest rank.
AccountedStep account_step(const std::vector<PartTimes>& times);

}  // namespace amdahl

// The step account of plans with pipeline stages: what the compute stream waits for, divided into bubble and exposed
// transfers by a simulation of the schedule with the measured times of its stages.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "parallel/pipeline/stage_stamps.h"
#include "parallel/rank_context.h"

namespace amdahl {

/// Times of a step on one rank in us, from stamps, scaled to the step without stamps.
struct StageParts {
  double forward = 0, backward = 0;  // the rank's actions
  double bubble = 0, transfers = 0;  // waiting for other stages: what the schedule implies, and the rest
  double simulated_bubble = 0;       // SimulatedPipeline::bubble_fraction with the mean measured times of every stage
  double action_bubble = 0;          // the same with the measured time of every action
  double message = 0;                // a message between neighbouring stages, on idle devices
  double message_bubble = 0;         // simulated_bubble with messages that take so long
  double stalls = 0, updates = 0;    // data-parallel communication that is not hidden; optimizer
};

/// Collective over all ranks of the plan. `full_us`: the step without stamps; `message_us`: equal on all ranks.
StageParts divide_stages(const RankContext& rank, const ParallelPlan& plan, const StampedStages& stamped,
                         double full_us, double message_us, Deadline deadline);

/// Means over steps; of none: zeros.
StageParts mean_of(const std::vector<StageParts>& steps);

}  // namespace amdahl

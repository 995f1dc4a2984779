// Training steps with stamps of every piece, on one rank.
#pragma once

#include <memory>
#include <vector>

#include "measure/training/batch_pool.h"
#include "measure/training/step_trace.h"
#include "train/trainer.h"

namespace amdahl {

struct TracedSteps {
  int64_t first = 0, end = 0;  // [first, end); earlier steps run without stamps
  LaunchMode launch = LaunchMode::eager;
  double timeout_seconds = 60;
};

/// The host does not wait between steps, except after every 60th. Collective over the ranks of the trainer's plan.
/// `stamps` receives the stamps used and must outlive the trainer.
RankTrace trace_steps(const RankContext& rank, Trainer& trainer, BatchPool& pool, const TracedSteps& steps,
                      std::vector<std::unique_ptr<StepStamps>>& stamps);

/// All ranks' traces on one clock, on every rank.
StepTrace gather_traces(Communicator& communicator, const RankTrace& mine, Deadline deadline);

}  // namespace amdahl

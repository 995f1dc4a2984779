// Steps with parts left out, and steps with stamps: differences between their times give the times of the parts.
#pragma once

#include <memory>
#include <vector>

#include "train/trainer.h"

namespace amdahl {

inline constexpr StepWork kForwardStep{.input = false, .backward = false, .communication = false, .update = false};
inline constexpr StepWork kBackwardStep{.input = false, .communication = false, .update = false};
inline constexpr StepWork kLocalStep{.input = false, .communication = false};
inline constexpr StepWork kStagedStep{.input = false};
/// Of plans with pipeline stages: a round trip of messages for every micro-batch.
inline constexpr StepWork kMessagesStep{.input = false, .forward = false, .backward = false, .update = false};

/// The step without communication: kLocalStep, or the full step where the strategy sends nothing.
StepWork local_step(const TrainingParts& parts);
/// Messages of kMessagesStep, each of which begins when the one before has arrived; 0 without stages.
int64_t messages_in_sequence(TrainingParts& parts);

/// What steps with stamps refer to. It must outlive the trainer, whose graphs may be running.
struct StepProbes {
  explicit StepProbes(Device& device) : stamps(device), stage_stamps(device) {}
  StepStamps stamps;
  StageStamps stage_stamps;
  std::unique_ptr<Graph> empty;  // as many empty kernels as the local step has
};

/// Communication of one stamped step on this rank, per bucket. The stamps themselves take time and separate kernels
/// that otherwise overlap: use these times to divide a measured difference, not as durations.
struct StampedTimes {
  std::vector<double> stalls, collectives;
};

/// The full step with stamps around its communication; blocks until it is done.
StampedTimes stamped_times(Trainer& trainer, const float* features, const float* targets, StepProbes& probes);
/// The full step with stamps around its actions and waits, of a plan with pipeline stages; blocks until it is done.
StampedStages stamped_stages(Trainer& trainer, const float* features, const float* targets, StepProbes& probes);
/// Enqueues one graph of as many empty kernels in sequence as the captured local step has nodes: it measures the launch
/// time alone.
void empty_step(Trainer& trainer, StepProbes& probes);

}  // namespace amdahl

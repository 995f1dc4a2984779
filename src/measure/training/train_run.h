// A complete training run: epochs over a data set, validation after each.
#pragma once

#include <functional>

#include "amdahl/training.h"
#include "measure/fleet.h"
#include "train/checkpoint.h"
#include "train/dataset.h"
#include "train/device_memory.h"
#include "train/trainer_state.h"

namespace amdahl {

struct TrainSettings {
  TrainerOptions trainer;  // plan complete
  int epochs = 20;
  double validation_fraction = 0.2;
  int64_t check_every = 1000;  // steps between comparisons of the ranks' parameters; 0: only after the last step
  /// Steps between calls of TrainEvents::checkpoint; 0: none. Where ranks differ between averages or updates are
  /// outstanding, it is called at the next step at which they do not, at the latest at the end of the epoch:
  /// checkpoints do not change the training.
  int64_t checkpoint_every = 0;
  TrainingPoint start;       // where to go on: equal on all processes
  TrainerState state;        // of `start`, on the root process; at step 0 its parameters alone, if has_weights
  bool has_weights = false;  // on all processes: the training begins with the parameters of `state`
};

/// Callbacks on the root process.
struct TrainEvents {
  std::function<void(const EpochResult&)> finished;                                 // after every epoch
  std::function<void(const TrainingPoint&, const TrainerState& state)> checkpoint;  // between two steps
  std::function<void(int64_t step)> stepped{};  // in every process, after each of its ranks' steps
  /// In every process, asked between steps from any thread. Once one process says yes, and checkpoints are written, all
  /// ranks end after the same step with a checkpoint of it and Error{interrupted}; it takes about half a second.
  std::function<bool()> stop_asked{};
  /// The plan with the shares that shares=auto became, and the devices' speeds in samples/s.
  std::function<void(const ParallelPlan&, const std::vector<double>& speeds)> shares{};
};

/// Trains on the whole data set, shuffled anew each epoch by the seed; rows that do not fill a global batch are skipped
/// in that epoch. From `settings.start` on, the steps are those of a training that was not interrupted there, bit by
/// bit where reruns are bit-equal. Error{non_finite} when the loss is NaN or infinite, Error{check_failed} when ranks
/// that should hold the same parameters do not (check_replicas), Error{interrupted} within an epoch once the fleet is
/// stopped (Fleet::end_runs_when) or `stop_asked`. `data` must be standardised on the split's training rows already.
/// The result is that of the root process.
struct TrainedModel {
  std::vector<EpochResult> epochs;  // of this run: from `start` on
  std::vector<NamedArray> buffers;  // what the layers keep besides parameters, after the last epoch
  std::vector<float> parameters;    // after the last epoch, in layout order
};
/// Modelled memory of the first device: the trainer, the data set and the current batch.
MemoryParts training_memory(const TrainSettings& settings, const Dataset& data, BackendKind backend, MathMode math);

TrainedModel run_training(Fleet& fleet, const Dataset& data, const TrainSettings& settings, const TrainEvents& events);

}  // namespace amdahl

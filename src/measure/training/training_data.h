// The training and validation rows of a data set as a rank's steps read them, by input mode.
#pragma once

#include <memory>
#include <vector>

#include "train/dataset.h"
#include "train/trainer.h"

namespace amdahl {

class TrainingData {
 public:
  virtual ~TrainingData() = default;
  /// Sets the row order of an epoch. Blocks.
  virtual void select(const std::vector<int32_t>& rows, Deadline deadline) = 0;
  /// Enqueues one step on rows [first, first + global batch) of that order. The caller waits for the step before it
  /// enqueues another one.
  virtual void step(int64_t first) = 0;
  /// Evaluates the validation rows. Blocks.
  virtual StepStats validate() = 0;
};

/// The whole data set in the device's memory, or, with the plan's input mode prefetch, the validation rows and two
/// batches. Losses are equal bit by bit. `data` and `split` outlive it.
std::unique_ptr<TrainingData> make_training_data(RankContext& rank, Trainer& trainer, const Dataset& data,
                                                 const Split& split, const ParallelPlan& plan, Deadline deadline);

}  // namespace amdahl

// A complete training run: epochs over a data set, validation after each.
#pragma once

#include <functional>

#include "amdahl/amdahl.h"
#include "measure/fleet.h"
#include "train/dataset.h"

namespace amdahl {

struct TrainSettings {
  TrainerOptions trainer;  // plan complete
  int epochs = 20;
  double validation_fraction = 0.2;
  int64_t check_every = 1000;  // steps between comparisons of the ranks' parameters; 0: only after the last step
};

/// Trains on the whole data set, shuffled anew each epoch by the seed; rows that do not fill a global batch are skipped
/// in that epoch. `finished` runs on the root process after every epoch. Error{non_finite} when the loss is NaN or
/// infinite, Error{check_failed} when ranks that should hold the same parameters do not (check_replicas),
/// Error{interrupted} within an epoch once the fleet is stopped (Fleet::end_runs_when). `data` must be standardised on
/// the split's training rows already. The result is that of the root process.
struct TrainedModel {
  std::vector<EpochResult> epochs;
  std::vector<float> parameters;  // after the last epoch, in layout order
};
TrainedModel run_training(Fleet& fleet, const Dataset& data, const TrainSettings& settings,
                          const std::function<void(const EpochResult&)>& finished);

}  // namespace amdahl

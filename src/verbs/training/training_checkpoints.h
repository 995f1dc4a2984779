// The checkpoints of a training: where they are, what they must have in common with it, and where it goes on.
#pragma once

#include <optional>

#include "amdahl/training.h"
#include "measure/training/train_run.h"

namespace amdahl {

class TrainingCheckpoints {
 public:
  /// `facts`: the training's identity; those that a resumed training must share are stored in each checkpoint.
  /// Error{usage} for checkpoints without a folder.
  TrainingCheckpoints(const TrainConfig& config, const ModelSpec& model, const Hyper& hyper,
                      const std::map<std::string, std::string>& facts);

  /// Called on every process: sets `settings.start` and, on the root, `settings.state`, when the training is resumed.
  /// Error{usage} for a new training whose folder already holds checkpoints or is another's, and for checkpoints of
  /// another training; Error{data_corrupt} when every checkpoint is damaged.
  void load(Fleet& fleet, TrainSettings& settings, Observer& observer);
  /// Writes a checkpoint. Errors of write_atomic.
  void save(const TrainingPoint& point, const TrainerState& state);

 private:
  TrainerState state_of(const Checkpoint& checkpoint, const std::string& file) const;

  const TrainConfig& config_;
  const ModelSpec& model_;
  const Hyper& hyper_;
  std::optional<CheckpointFolder> folder_;
  std::map<std::string, std::string> identity_;
};

}  // namespace amdahl

// Trainer: one rank's training step, enqueued eagerly or replayed as one graph.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "train/step.h"
#include "train/step_stats.h"

namespace amdahl {

/// Deadlines derived from step times: five times the longest step, and at least 5 s.
struct AutoTimeouts {
  double collective_seconds;  // of one collective
  double host_seconds;        // of the host, which may wait for `queued_steps` steps at once
};
AutoTimeouts auto_timeouts(double longest_step_seconds, int64_t queued_steps);

/// Not thread-safe: one per rank, used by that rank's thread.
class Trainer {
 public:
  /// As TrainingParts. Everything of `rank` must outlive the trainer.
  Trainer(const RankContext& rank, const TrainerOptions& options);
  ~Trainer();

  /// What the trainer steps: to read, save and load its state (trainer_state.h), to evaluate it (step_stats.h).
  TrainingParts& parts() { return parts_; }

  /// Fresh parameters, optimizer state and step count. Blocks.
  void reset();
  /// Rows of the global batch that the features and targets of a step must hold on this rank: its share, or the whole
  /// batch on rank 0 of strategies with `data_on_root` (other ranks pass null).
  RowRange rows_to_provide() const;
  /// Enqueues one optimizer step on device-resident rows, in the launch mode of the options. Graph launch captures one
  /// graph per distinct `features` pointer.
  void step(const float* features, const float* targets) { launch(features, targets, {}, parts_.options.launch); }
  /// Enqueues `work` in a launch mode; the first step is always eager. After steps that do not train, parameters are
  /// those of no training: call `reset` before training on.
  void launch(const float* features, const float* targets, const StepWork& work, LaunchMode mode);
  /// Captures the graph that `launch` would replay; nothing runs.
  void capture(const float* features, const float* targets, const StepWork& work);
  /// Number of nodes of the graph of such steps; 0 when none was captured.
  size_t graph_nodes(const StepWork& work) const;

  void synchronize() { parts_.synchronize(); }
  /// Sets the timeout of later host waits on the device.
  void set_timeout(double seconds) { parts_.options.timeout_seconds = seconds; }
  Stream& compute_stream() { return *parts_.compute; }
  /// Of the last step, summed over ranks. Collective; blocks.
  StepStats stats() { return sum_over_ranks(parts_, local_stats(parts_)); }

 private:
  Graph& graph_of(const float* features, const float* targets, const StepWork& work);

  TrainingParts parts_;
  std::map<std::pair<const float*, StepWork>, std::unique_ptr<Graph>> graphs_;  // by features
  bool warmed_ = false;  // one eager step ran, so Ops have chosen their algorithms
};

}  // namespace amdahl

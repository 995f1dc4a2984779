// TrainingParts: what one rank trains with. Its constructor is the one place that puts a model under a plan.
#pragma once

#include <memory>
#include <vector>

#include "parallel/data/strategy.h"
#include "parallel/rank_context.h"
#include "train/divided_model.h"
#include "train/optimizer.h"

namespace amdahl {

/// Not thread-safe: one per rank, used by that rank's thread. Everything is enqueued by enqueue_step (step.h).
struct TrainingParts {
  /// In this order: tensor parallelism, recomputation and pipeline stages (DividedModel), the optimizer of what this
  /// rank updates, data parallelism. Blocks; collective where the model is divided. Everything of `rank` must outlive
  /// it. Error{usage} for a plan or launch mode that the steps cannot have.
  TrainingParts(const RankContext& rank, const TrainerOptions& options);
  TrainingParts(const TrainingParts&) = delete;
  TrainingParts& operator=(const TrainingParts&) = delete;

  int64_t most_rows() const { return most_micro_batch_rows(options.plan, row.full_batch_everywhere); }
  /// The ranges of the layout that this rank, or another data-parallel rank, updates.
  std::vector<FloatRange> owned() const { return owned_by(divided.place().dp); }
  std::vector<FloatRange> owned_by(int dp_rank) const { return row.owned(options.plan, model.layout(), dp_rank); }
  /// Whether a rank keeps a part of its parameters alone (zero3), so that reading and evaluating them is collective.
  bool shards_parameters() const { return zero_stage(options.plan.strategy) == 3; }
  // Longer than a collective's own deadline, whose error names the missing ranks.
  Deadline deadline() const { return Deadline::after_seconds(options.timeout_seconds + 2.0); }
  /// Waits for all work on this rank's device.
  void synchronize();
  /// Brings all ranks to the parameters of every step so far, where the strategy lets them differ or updates late
  /// (GradientSync::finish_updates). Collective; blocks.
  void finish_updates();

  RankContext rank;
  TrainerOptions options;
  const StrategyRow& row;
  std::unique_ptr<Stream> compute, second, comm;  // `second`: null where operations do not gain from it
  DividedModel divided;
  Model& model;  // of the first stage: the layout and parameters of all
  std::unique_ptr<Optimizer> optimizer;
  GradientOrder order;
  std::vector<GradientPiece> pieces;  // units of computing and sending gradients
  /// On the device: what updates changed since `own_sums`, which are of the bits of the owned parameters and of each
  /// array of state. Null where other ranks hold the same (replicas.h).
  uint32_t* changes = nullptr;
  std::vector<uint32_t> own_sums;
  std::unique_ptr<GradientSync> sync;
  std::unique_ptr<Buffer> staged_features, staged_targets;  // of strategies with `data_on_root`
  std::unique_ptr<Buffer> aligned_features;                 // of has_unaligned_images
};

}  // namespace amdahl

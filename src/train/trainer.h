// Trainer: one rank's training step, enqueued eagerly or replayed as one graph, with time stamps when asked.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "parallel/strategy.h"
#include "train/optimizer.h"

namespace amdahl {

/// What a rank computes with. Everything outlives the trainer.
struct RankContext {
  int rank = 0;
  int world_size = 1;
  Device& device;
  OpsOnDemand ops;
  Communicator& communicator;
};

struct TrainerOptions {
  ModelSpec model;
  ParallelPlan plan;
  Hyper hyper;
  LaunchMode launch = LaunchMode::eager;
  uint64_t seed = 42;
  double timeout_seconds = 60;  // for host waits on the device
  bool keep_gradients = false;  // for gradients(): rules out updates that never write them
};

/// Loss and correct rows of the global batch, as the last step left them on this rank (dp: on rank 0 only).
struct StepStats {
  double loss = 0;
  double correct = 0;
};

/// Where the microseconds of one instrumented step went on this rank; `stalls` and `collectives` are per bucket.
struct StepTimes {
  double step = 0, input = 0, forward = 0, backward = 0, optimizer = 0;
  std::vector<double> stalls, collectives;
  double idle = 0;  // compute stream without work and not stalled; 0 where the backend cannot tell
};

class Trainer {
 public:
  Trainer(const RankContext& rank, const TrainerOptions& options);
  ~Trainer();

  /// Fresh parameters, optimizer state and step count.
  void reset();

  /// Rows of the global batch that this rank must find in the features and targets it passes to `step`: its share, or
  /// the whole batch on rank 0 of strategies with `data_on_root` (other ranks pass null).
  RowRange rows_to_provide() const;

  /// Enqueues one optimizer step on these device-resident rows. Graph launch captures once per distinct pointer.
  void step(const float* features, const float* targets);
  /// The same step with stamps; blocks until it is done and returns its times. `mode` may differ from the trainer's
  /// own, to tell launch gaps from work.
  StepTimes instrumented_step(const float* features, const float* targets, LaunchMode mode);

  /// The same step with the caller's stamps, which must outlive the trainer; enqueued, not waited for. With
  /// `prepare_only`, what a launch by graph would have to make first is made, and nothing runs.
  void stamped_step(const float* features, const float* targets, LaunchMode mode, StepStamps& stamps,
                    bool prepare_only = false);

  /// Forward without dropout over device-resident rows; loss is the mean over the rows. Blocks.
  StepStats evaluate(const float* features, const float* targets, int64_t rows);

  void synchronize();
  StepStats stats();                      // blocks
  std::vector<float> parameters();        // layout order; blocks
  std::vector<float> gradients();         // of the global batch in the owned ranges; needs keep_gradients
  std::vector<FloatRange> owned() const;  // what this rank updates itself
  Stream& compute_stream() { return *compute_; }
  Mlp& model() { return model_; }
  size_t graph_nodes() const;

 private:
  GradientOrder choose_order() const;

  using BatchKey = std::pair<const float*, const StepStamps*>;  // features pointer, stamps or null

  void enqueue(const float* features, const float* targets, StepStamps* stamps);
  void enqueue_micro_batches(const float* features, const float* targets, StepStamps* stamps);
  void launch(const float* features, const float* targets, LaunchMode mode, StepStamps* stamps);
  Graph& graph_of(const float* features, const float* targets, StepStamps* stamps);
  void enqueue_forward(const BatchView& batch, bool accumulate);
  BackwardOptions backward_options(bool last, StepStamps* stamps);
  // Longer than a collective's own deadline, which knows who did not come.
  Deadline deadline() const { return Deadline::after_seconds(options_.timeout_seconds + 2.0); }

  RankContext rank_;
  TrainerOptions options_;
  const StrategyRow& row_;
  std::unique_ptr<Stream> compute_, second_, comm_;
  Mlp model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Strategy> strategy_;
  GradientOrder order_;
  std::vector<GradientPiece> pieces_;                         // what is computed, and may be sent, by itself
  std::unique_ptr<Buffer> staged_features_, staged_targets_;  // dp only
  StepStamps stamps_;
  std::map<BatchKey, std::unique_ptr<Graph>> graphs_;
  bool warmed_ = false;  // one eager step ran, so that ops have chosen their algorithms
};

/// Floats per row of the targets: output width for MSE, 1 (class index) for cross-entropy.
int64_t target_width(const ModelSpec& model);

}  // namespace amdahl

// Trainer: one rank's training step, enqueued eagerly or replayed as one graph, with time stamps when asked.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "parallel/data/strategy.h"
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
  bool auto_timeout = false;    // of whoever drives the trainer: auto_timeouts() once it is warm
  bool keep_gradients = false;  // for gradients(): rules out updates that never write them
};

/// Deadlines that follow from what steps take: five times the longest step, and at least 5 s.
struct AutoTimeouts {
  double collective_seconds;  // of one collective
  double host_seconds;        // of the host, which may wait for `queued_steps` at once
};
AutoTimeouts auto_timeouts(double longest_step_seconds, int64_t queued_steps);

/// Loss and correct rows of the last step or evaluation: means over the global batch have one part on each rank.
struct StepStats {
  double loss = 0;
  double correct = 0;
};

/// Steps with parts left out, so that differences of their times say what the parts take. What is there is enqueued as
/// in a full step; but parameters are updated after backward, never within it.
enum class StepPart {
  forward,   // forward and loss
  backward,  // with backward: gradients, no update
  local,     // with the updates, from this rank's own gradients: nothing is sent
  staged,    // with communication, on the input that an earlier full step handed out
  full,      // the step as it trains
};

/// Communication of one stamped step on this rank, per bucket. The stamps themselves take time and part kernels that
/// otherwise overlap: these tell how a difference divides, not how long it is.
struct StampedTimes {
  std::vector<double> stalls, collectives;
};

class Trainer {
 public:
  Trainer(const RankContext& rank, const TrainerOptions& options);
  ~Trainer();

  /// Of host waits on the device from here on.
  void set_timeout(double seconds) { options_.timeout_seconds = seconds; }

  /// Fresh parameters, optimizer state and step count.
  void reset();

  /// Rows of the global batch that this rank must find in the features and targets it passes to `step`: its share, or
  /// the whole batch on rank 0 of strategies with `data_on_root` (other ranks pass null).
  RowRange rows_to_provide() const;

  /// Enqueues one optimizer step on these device-resident rows. Graph launch captures once per distinct pointer.
  void step(const float* features, const float* targets);
  /// Such a step, enqueued in that launch mode. All but `full` leave parameters behind that training would not: `reset`
  /// comes before the next steps that count.
  void part_step(const float* features, const float* targets, StepPart part, LaunchMode mode);
  /// Makes the graph that part_step would replay; nothing runs.
  void prepare_part(const float* features, const float* targets, StepPart part);
  /// The step without communication: `local`, or `full` where the strategy sends nothing.
  StepPart local_part() const;
  bool hands_out_input() const { return row_.data_on_root; }
  /// Whether backward of the full step updates parameters as it makes their gradients. The update's time is then what
  /// the full step takes longer than one whose backward writes these gradients.
  bool fuses_update() const { return strategy_->update_in_backward() != nullptr; }
  /// The full step with stamps around its communication; blocks until it is done.
  StampedTimes stamped_times(const float* features, const float* targets);
  /// Enqueues one graph of as many empty kernels as the captured local part has nodes, each after the other: what
  /// launching alone takes. Needs graph_nodes(local_part()) > 0.
  void empty_step();

  /// The same step with the caller's stamps, which must outlive the trainer; enqueued, not waited for. With
  /// `prepare_only`, what a launch by graph would have to make first is made, and nothing runs.
  void stamped_step(const float* features, const float* targets, LaunchMode mode, StepStamps& stamps,
                    bool prepare_only = false);

  /// Forward without dropout over device-resident rows; loss is the mean over the rows. Blocks.
  StepStats evaluate(const float* features, const float* targets, int64_t rows);

  void synchronize();
  /// This rank's part of the last step's statistics (the whole where every rank has the full batch). Blocks.
  StepStats local_stats();
  /// The parts' sum, the same on every rank. All ranks call it together; blocks.
  StepStats sum_over_ranks(const StepStats& local);
  StepStats stats() { return sum_over_ranks(local_stats()); }
  std::vector<float> parameters();        // layout order; blocks
  std::vector<float> gradients();         // of the global batch in the owned ranges; needs keep_gradients
  std::vector<FloatRange> owned() const;  // what this rank updates itself
  Stream& compute_stream() { return *compute_; }
  Model& model() { return model_; }
  /// Of the part's graph, without stamps; 0 where none was captured.
  size_t graph_nodes(StepPart part = StepPart::full) const;

 private:
  GradientOrder choose_order() const;

  using BatchKey = std::tuple<const float*, const StepStamps*, StepPart>;  // features pointer, stamps or null

  void enqueue(const float* features, const float* targets, StepStamps* stamps);
  void enqueue_part(const float* features, const float* targets, StepPart part);
  void enqueue_input(const float*& features, const float*& targets, bool hand_out, StepStamps* stamps);
  void enqueue_micro_batches(const float* features, const float* targets, StepStamps* stamps, StepPart part);
  void launch(const float* features, const float* targets, LaunchMode mode, StepStamps* stamps);
  Graph& graph_of(const float* features, const float* targets, StepStamps* stamps, StepPart part = StepPart::full);
  void enqueue_forward(const BatchView& batch, bool accumulate);
  BackwardOptions silent_backward_options();
  BackwardOptions backward_options(bool last, StepStamps* stamps);
  // Longer than a collective's own deadline, which knows who did not come.
  Deadline deadline() const { return Deadline::after_seconds(options_.timeout_seconds + 2.0); }

  RankContext rank_;
  TrainerOptions options_;
  const StrategyRow& row_;
  std::unique_ptr<Stream> compute_, second_, comm_;
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientSync> strategy_;
  GradientOrder order_;
  std::vector<GradientPiece> pieces_;                         // what is computed, and may be sent, by itself
  std::unique_ptr<Buffer> staged_features_, staged_targets_;  // dp only
  StepStamps stamps_;
  std::map<BatchKey, std::unique_ptr<Graph>> graphs_;
  std::unique_ptr<Graph> empty_;  // of empty_step
  bool warmed_ = false;           // one eager step ran, so that ops have chosen their algorithms
};

/// Floats per row of the targets: output width for MSE, 1 (class index) for cross-entropy.
int64_t target_width(const ModelSpec& model);

}  // namespace amdahl

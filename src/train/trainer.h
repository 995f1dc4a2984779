// Trainer: one rank's training step, enqueued eagerly or replayed as one graph, with time stamps when asked.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "amdahl/tensor.h"
#include "parallel/data/strategy.h"
#include "parallel/pipeline/stage_stamps.h"
#include "parallel/rank_context.h"
#include "train/divided_model.h"
#include "train/optimizer.h"

namespace amdahl {

struct TrainerOptions {
  ModelSpec model;
  ParallelPlan plan;
  Hyper hyper;
  LaunchMode launch = LaunchMode::eager;
  uint64_t seed = 42;
  double timeout_seconds = 60;  // for host waits on the device
  bool auto_timeout = false;    // the caller applies auto_timeouts() after the warm-up
  bool keep_gradients = false;  // needed by gradients(): excludes updates that do not write them
};

/// Deadlines derived from step times: five times the longest step, and at least 5 s.
struct AutoTimeouts {
  double collective_seconds;  // of one collective
  double host_seconds;        // of the host, which may wait for `queued_steps` steps at once
};
AutoTimeouts auto_timeouts(double longest_step_seconds, int64_t queued_steps);

/// Loss and number of correct rows of the last step or evaluation. Each rank holds its part; the sum over ranks is that
/// of the global batch.
struct StepStats {
  double loss = 0;
  double correct = 0;
  double absolute_error = 0;  // mean over rows and outputs, of an evaluation with mse only
};

/// What a checkpoint keeps of a trainer.
struct TrainerState {
  std::vector<float> parameters;              // layout order
  std::vector<std::vector<float>> optimizer;  // by state array, see Optimizer::state; layout order
  std::vector<NamedArray> buffers;            // what layers keep besides parameters: Model::buffers
  std::optional<LossScale> loss_scale;        // in fp16
  std::vector<std::vector<float>> feedback;   // GradientSync::feedback by data-parallel rank; layout order
  uint64_t step = 0;                          // finished optimizer steps
};

/// Steps with parts left out: differences between their times give the times of the parts. The parts that remain are
/// enqueued as in a full step, except that parameters are updated after backward, never within it.
enum class StepPart {
  forward,   // forward and loss
  backward,  // with backward: gradients, no update
  local,     // with the updates, from this rank's own gradients: no communication
  staged,    // with communication, on the input that an earlier full step scattered
  full,      // the step as it trains
  messages,  // of plans with pipeline stages: a round trip of messages for every micro-batch, nothing else
};

/// Communication of one stamped step on this rank, per bucket. The stamps themselves take time and separate kernels
/// that otherwise overlap: use these times to divide a measured difference, not as durations.
struct StampedTimes {
  std::vector<double> stalls, collectives;
};

/// Not thread-safe: one per rank, used by that rank's thread.
class Trainer {
 public:
  /// Everything of `rank` must outlive the trainer.
  Trainer(const RankContext& rank, const TrainerOptions& options);
  ~Trainer();

  /// Sets the timeout of later host waits on the device.
  void set_timeout(double seconds) { options_.timeout_seconds = seconds; }

  /// Brings all ranks to the parameters of every step so far, where the strategy lets them differ or updates late
  /// (GradientSync::settle). Collective; blocks.
  void settle();
  /// Whether settle would change nothing.
  bool is_settled() const { return strategy_->is_settled(); }
  int64_t period() const { return strategy_->period(); }
  int64_t most_steps_behind() const { return strategy_->most_steps_behind(); }

  /// Fresh parameters, optimizer state and step count.
  void reset();

  /// Rows of the global batch that the features and targets passed to `step` must hold on this rank: its share, or the
  /// whole batch on rank 0 of strategies with `data_on_root` (other ranks pass null).
  RowRange rows_to_provide() const;
  const ParallelPlan& plan() const { return options_.plan; }

  /// Enqueues one optimizer step on device-resident rows. Graph launch captures one graph per distinct `features`
  /// pointer.
  void step(const float* features, const float* targets);
  /// Enqueues such a step in the given launch mode. All parts except `full` leave parameters that training would not
  /// produce: call `reset` before further training steps.
  void part_step(const float* features, const float* targets, StepPart part, LaunchMode mode);
  /// Captures the graph that part_step replays; nothing runs.
  void prepare_part(const float* features, const float* targets, StepPart part);
  /// The step without communication: `local`, or `full` where the strategy sends nothing.
  StepPart local_part() const;
  bool hands_out_input() const { return row_.data_on_root; }
  /// Whether backward of the full step updates parameters as it makes their gradients. The update's time is then the
  /// time of the full step minus that of a step whose backward writes these gradients.
  bool fuses_update() const { return strategy_->update_in_backward() != nullptr; }
  /// The full step with stamps around its communication; blocks until it is done.
  StampedTimes stamped_times(const float* features, const float* targets);
  /// The full step with stamps around its actions and waits, of a plan with pipeline stages; blocks until it is done.
  StampedStages stamped_stages(const float* features, const float* targets);
  bool has_tensor() const { return options_.plan.mesh.tp > 1; }
  /// Leaves out the sums of tensor parallelism until called with false: parameters become those of no training.
  void silence_tensor(bool silent) {
    silent_tensor_ = silent;
    divided_->silence_tensor(silent);
  }
  /// Enqueues one graph with as many empty kernels in sequence as the captured local part has nodes: it measures the
  /// launch time alone. Needs graph_nodes(local_part()) > 0.
  void empty_step();

  /// Enqueues the full step with the caller's stamps, which must outlive the trainer; does not wait. With
  /// `prepare_only`, only captures the graph that graph launch would replay; nothing runs.
  void stamped_step(const float* features, const float* targets, LaunchMode mode, StepStamps& stamps,
                    bool prepare_only = false);

  /// Forward without dropout over device-resident rows; loss is the mean over the rows. Blocks.
  StepStats evaluate(const float* features, const float* targets, int64_t rows);

  void synchronize();
  /// This rank's part of the last step's statistics (the whole where every rank has the full batch). Blocks.
  StepStats local_stats();
  /// The sum of all ranks' parts, on every rank. Collective; blocks.
  StepStats sum_over_ranks(const StepStats& local);
  StepStats stats() { return sum_over_ranks(local_stats()); }
  /// Of model().layout(), in its order. Collective where shards_parameters(); blocks.
  std::vector<float> parameters();
  /// All parameters in the order of make_layout(model), on rank 0; other ranks get nothing. Collective; blocks.
  std::vector<float> whole_parameters();
  std::vector<NamedArray> buffers();        // Model::buffers of this rank; blocks
  std::vector<NamedArray> whole_buffers();  // of all layers, on rank 0; collective; blocks
  /// Where ranks hold parts alone (ZeRO): Error{check_failed} when this rank's part of the parameters or of the
  /// optimizer's state changed otherwise than by updates since the last call, or since the state was set, as memory
  /// does that loses a bit. `when` ends the message. Blocks.
  void check_own_state(std::string_view when);
  /// On the device: the parameters of owned()'s first range, and the optimizer's arrays of state for owned().
  std::vector<float*> own_arrays();
  /// In fp16: the scale of the loss and the steps skipped so far, equal on all ranks. Blocks.
  std::optional<LossScale> loss_scale();
  std::vector<float> gradients();         // of the global batch in the owned ranges; needs keep_gradients
  std::vector<FloatRange> owned() const;  // the ranges that this rank updates
  /// The state of all ranks, on rank 0; other ranks get the step alone. Collective; blocks.
  TrainerState save_state();
  /// Continues from the state that rank 0 passes; other ranks' argument is ignored. The number of ranks and the
  /// strategy may differ from those of save_state. Collective; blocks.
  void load_state(const TrainerState& state);
  /// Whether tensor or pipeline parallelism divides the model, so that evaluate is collective over the replica of rank
  /// 0: `evaluates` says who takes part.
  bool evaluates() const { return shards_parameters() || (divided_ ? divided_->place().dp == 0 : rank_.rank == 0); }
  /// Whether a rank keeps a part of its parameters alone (zero3), so that parameters() and evaluate are collective.
  bool shards_parameters() const { return zero_stage(options_.plan.strategy) == 3; }
  bool has_stages() const { return divided_ && divided_->stages(); }
  /// Messages of part `messages`, each of which begins when the one before has arrived; 0 without stages.
  int64_t messages_in_sequence() const {
    return has_stages() ? divided_->stages()->messages_per_round_trip() * options_.plan.accumulate : 0;
  }
  /// The ranks that hold the same parameters as this one.
  Communicator& replicas() { return divided_ ? divided_->dp() : rank_.communicator; }
  /// Payload bytes that this rank has passed to communicators since the last call.
  size_t take_traffic();
  Stream& compute_stream() { return *compute_; }
  Model& model() { return model_; }
  /// Number of nodes of the part's graph without stamps; 0 when none was captured.
  size_t graph_nodes(StepPart part = StepPart::full) const;

 private:
  void check_plan() const;
  GradientOrder choose_order() const;
  int64_t evaluated_rows() const;
  std::vector<float> gathered_parameters();
  std::vector<float> owned_gradients();
  std::vector<FloatRange> owned_by(int dp_rank) const;
  int dp_rank() const { return divided_ ? divided_->place().dp : rank_.rank; }
  void enqueue_stages(const float* features, const float* targets, StepStamps* stamps, StepPart part);
  void enqueue_messages();
  StepStats evaluate_stages(const float* features, const float* targets, int64_t rows);
  std::vector<float> gather_whole(const std::vector<float>& held);
  std::vector<float> distribute_whole(const std::vector<float>* whole);
  bool state_is_divided() const;
  std::vector<float> read_floats(const float* from, int64_t count);
  void write_floats(float* to, const std::vector<float>& values);
  std::vector<float> gather_state(const float* array);
  void distribute_state(float* array, const std::vector<float>* whole);
  std::vector<std::vector<float>> gather_feedback();
  void distribute_feedback(const std::vector<std::vector<float>>& saved);
  std::vector<uint32_t> sums_of_own_state();
  void begin_own_state();
  void load_buffers(const std::vector<NamedArray>& saved);
  void load_divided_buffers(const std::vector<NamedArray>& saved);

  /// Features pointer, stamps or null, and whether sums of tensor parallelism are left out.
  using BatchKey = std::tuple<const float*, const StepStamps*, StepPart, bool>;

  void enqueue(const float* features, const float* targets, StepStamps* stamps);
  void enqueue_part(const float* features, const float* targets, StepPart part);
  void enqueue_input(const float*& features, const float*& targets, bool hand_out, StepStamps* stamps);
  void enqueue_micro_batches(const float* features, const float* targets, StepStamps* stamps, StepPart part);
  void end_step();
  void launch(const float* features, const float* targets, LaunchMode mode, StepStamps* stamps);
  void rehearse(const float* features, const float* targets);
  Graph& graph_of(const float* features, const float* targets, StepStamps* stamps, StepPart part = StepPart::full);
  const float* aligned_rows(const float* features, int64_t first, int64_t rows);
  void enqueue_forward(const BatchView& batch, bool accumulate);
  StepStats read_stats(Model& model);
  StepStats sum_over(Communicator& ranks, const StepStats& local);
  double absolute_error(Model& model, const BatchView& batch);
  BackwardOptions silent_backward_options();
  BackwardOptions backward_options(bool last, StepStamps* stamps);
  // Longer than a collective's own deadline, whose error names the missing ranks.
  Deadline deadline() const { return Deadline::after_seconds(options_.timeout_seconds + 2.0); }

  RankContext rank_;
  TrainerOptions options_;
  const StrategyRow& row_;
  std::unique_ptr<Stream> compute_, second_, comm_;
  std::unique_ptr<DividedModel> divided_;  // null where the mesh has a data axis alone
  std::unique_ptr<Model> whole_model_;     // else
  Model& model_;                           // of this rank: its layout and parameters
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientSync> strategy_;
  GradientOrder order_;
  std::vector<GradientPiece> pieces_;                         // units of computing and sending gradients
  std::unique_ptr<Buffer> staged_features_, staged_targets_;  // dp only
  std::unique_ptr<Buffer> aligned_features_;                  // of has_unaligned_images
  StepStamps stamps_;
  std::unique_ptr<StageStamps> stage_stamps_;  // of stamped_stages
  bool stamps_stages_ = false;
  bool silent_tensor_ = false;
  std::map<BatchKey, std::unique_ptr<Graph>> graphs_;
  std::map<const float*, std::unique_ptr<Graph>> stage_graphs_;  // of stamped_stages, by features
  std::unique_ptr<Graph> empty_;                                 // of empty_step
  uint32_t* changes_ = nullptr;                                  // on the device: what updates changed since own_sums_
  std::vector<uint32_t> own_sums_;  // of the bits of the owned parameters and of each array of state
  bool warmed_ = false;             // one eager step ran, so Ops have chosen their algorithms
};

}  // namespace amdahl

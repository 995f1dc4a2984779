// GradientSync: how the ranks of a data-parallel group combine their gradients and step the optimizer. The trainer runs
// single-device model code and calls these hooks.
//
// Every hook enqueues work and returns. All ranks call the same hooks in the same order. A data-parallel strategy is a
// row of `strategy_table()`: to add one, write a file with its class and add the row; the equivalence and traffic tests
// then cover it without further edits.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "model/model.h"
#include "parallel/step_stamps.h"
#include "plan/shares.h"

namespace amdahl {

/// The optimizer's interface for strategies. Ranges lie within one of the rank's owned ranges.
class RangeOptimizer {
 public:
  virtual ~RangeOptimizer() = default;
  /// Updates the parameters [begin, end) of the layout from their gradients.
  virtual void update(Stream& stream, int64_t begin, int64_t end) = 0;
  /// Whether the optimizer is Adam; `adam_step` then gives the arguments of an update, for a strategy that runs the
  /// update itself.
  virtual bool is_adam() const { return false; }
  virtual AdamStep adam_step(int64_t begin, int64_t end) {
    (void)begin, (void)end;
    throw Error(Cause::internal, "this optimizer is not Adam");
  }

  /// On the device, in fp16; else null. `clip` brings it to the next step, so that a rank that does not clip has to get
  /// it from one that does.
  virtual LossScale* loss_scale() { return nullptr; }

  /// Device arrays with a float of state for every owned parameter, in the order of the owned ranges.
  virtual std::vector<float*> state() { return {}; }

  /// Whether the norm of the whole gradient is needed before an update, to clip or in fp16. No update of a step may
  /// then be enqueued, and no `adam_step` asked for, before all gradients of the global batch are final on their
  /// owners: a strategy calls `sum_of_squares`, adds up the sums of ranks that hold different parts of the gradient,
  /// and calls `clip`, all in the order of the streams that run the updates. Error{internal} from an update before
  /// `clip`.
  virtual bool clips() const { return false; }
  /// Enqueues the sum of the squares of the gradients in `ranges`; returns where it will be: one float on the device.
  virtual float* sum_of_squares(Stream& stream, const std::vector<FloatRange>& ranges) {
    (void)stream, (void)ranges;
    throw Error(Cause::internal, "this optimizer does not clip");
  }
  /// Enqueues the scale of the gradients for the updates of this step, from that sum.
  virtual void clip(Stream& stream) { (void)stream; }
};

/// Clips by the gradients in `ranges`, which are the whole gradient, or as much of it as an update without
/// communication knows. Does nothing without clipping.
inline void clip_by_own_gradients(RangeOptimizer& optimizer, Stream& stream, const std::vector<FloatRange>& ranges) {
  if (!optimizer.clips()) return;
  optimizer.sum_of_squares(stream, ranges);
  optimizer.clip(stream);
}

/// What a strategy uses on its rank; everything must outlive the strategy.
struct SyncContext {
  const ParallelPlan& plan;
  Device& device;
  Ops& ops;
  Model& model;
  RangeOptimizer& optimizer;
  Communicator& communicator;
  Stream& compute;
  Stream& comm;  // second stream, for communication that overlaps compute
  double timeout_seconds = 60;
  bool keep_gradients = false;  // the model's gradients must be complete after a step
  FloatRange late{};            // gradients to which other stages add before gradient_ready
};

class GradientSync {
 public:
  virtual ~GradientSync() = default;

  /// Called before begin_step, and before an evaluation. Without `communicates` nothing is sent until the next call,
  /// for parts of a step that are timed by themselves. `stamps`: of the communication within forward and backward.
  virtual void begin_pass(bool communicates, StepStamps* stamps) { (void)communicates, (void)stamps; }
  /// Called at the end of parts of a step without finish_step or update_alone.
  virtual void end_pass() {}
  /// Called before forward. With `data_on_root`, `full` is the global batch (features and targets are null except on
  /// rank 0), to be scattered into the ranks' staging buffers; else both buffers are null.
  virtual void begin_step(const BatchView& full, float* staged_features, float* staged_targets) {
    (void)full, (void)staged_features, (void)staged_targets;
  }
  /// Called right after the work completing gradients [begin, end) of the layout (last micro-batch) was enqueued on
  /// `stream`.
  virtual void gradient_ready(int64_t begin, int64_t end, Stream& stream, StepStamps* stamps) {
    (void)begin, (void)end, (void)stream, (void)stamps;
  }
  /// Called after the work of each backward pass was enqueued on the compute stream, in plans with virtual_shards,
  /// where the gradients of a pass replace those of the one before. `index`: of this rank's shards.
  virtual void micro_batch_done(int64_t index) { (void)index; }
  /// Whether finish_step gives every rank the loss statistics of the whole batch.
  virtual bool has_whole_stats() const { return false; }
  /// The Adam step on the first layer's weights that backward must fuse into the computation of their gradient; null:
  /// none, as always with RangeOptimizer::clips.
  virtual const AdamStep* update_in_backward() const { return nullptr; }
  /// SMs that the work enqueued by gradient_ready occupies during backward.
  virtual int reserved_sms() const { return 0; }
  /// Called after backward. In compute-stream order, after the work that this enqueues, the rank's owned ranges are
  /// updated from gradients of the global batch, and those gradients are in the model's gradients (except what
  /// update_in_backward covers). With RangeOptimizer::clips, every update of the step is enqueued here, after the norm.
  virtual void finish_step(StepStamps* stamps) = 0;
  /// The updates of a step from this rank's own gradients, all after backward, on the compute stream. For steps without
  /// communication, whose times show what communication adds. Clips by the norm of this rank's own gradients.
  virtual void update_alone() = 0;

  /// Enqueues the return to the state before the first step.
  virtual void reset() {}
  /// Enqueues what is missing until all ranks hold the parameters of every step so far. Collective.
  virtual void finish_updates() {}
  /// Whether finish_updates would change nothing.
  virtual bool updates_finished() const { return true; }
  /// Steps after which the work of a step repeats; only those with 1 can be captured in a graph.
  virtual int64_t period() const { return 1; }
  /// The most steps that any gradient was older than the parameters which it updated.
  virtual int64_t most_steps_behind() const { return 0; }
  /// What this rank has not sent of its gradients so far, a float on the device for every parameter of the layout;
  /// null: strategies that send everything. A checkpoint keeps it.
  virtual float* feedback() { return nullptr; }
};

struct StrategyRow {
  std::string_view name;
  std::string_view summary;
  bool replicas = false;               // after a step every rank holds the same parameters, bit by bit
  bool full_batch_everywhere = false;  // every rank computes all rows
  bool data_on_root = false;           // rank 0 holds the batch and scatters it each step
  bool overlaps = false;               // communicates during backward if the plan allows it
  bool is_layerwise = false;           // backward runs layer by layer
  bool updates_early = false;  // and then changes parameters: input gradients, which read them, should come first
  Feasibility (*feasible)(const ParallelPlan& plan);
  /// Payload bytes that `rank` passes to collectives in one step; a test compares it with a counting communicator.
  /// Without `norm_bytes`.
  int64_t (*traffic_bytes)(const ParallelPlan& plan, const ModelSpec& model, int rank);
  /// Payload bytes of the collective that adds up the norm of a clipped gradient, where no rank has all of it.
  int64_t norm_bytes = 0;
  /// Ascending, disjoint ranges of the layout that data-parallel `rank` updates, and for which it holds optimizer
  /// state.
  std::vector<FloatRange> (*owned)(const ParallelPlan& plan, const ParameterLayout& layout, int rank);
  std::unique_ptr<GradientSync> (*build)(const SyncContext& context);
};

/// Whether steps of this plan communicate during backward; only then do gradients in pieces pay.
inline bool sends_during_backward(const StrategyRow& row, const ParallelPlan& plan) {
  return row.overlaps && plan.overlap && plan.mesh.dp > 1 && plan.virtual_shards == 0;
}

/// The order in which backward computes the gradients of a whole model under this plan, on a device with these
/// operations. `has_second_stream`: for the gradients of weights.
GradientOrder gradient_order(const ModelSpec& model, const ParallelPlan& plan, const GemmOps& gemm,
                             bool has_second_stream);

const std::vector<StrategyRow>& strategy_table();
/// The row of that name. Error{usage} with the nearest name and the list.
const StrategyRow& find_strategy(std::string_view name);

}  // namespace amdahl

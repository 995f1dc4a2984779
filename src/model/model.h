// Model: a chain of layers, or a contiguous part of one, on ONE device. It sends nothing to other devices; parallelism
// wraps it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "amdahl/plan.h"
#include "model/layer.h"
#include "model/parameter_layout.h"
#include "model/parameter_storage.h"
#include "model/token_head.h"
#include "model/typed_layer.h"
#include "ops/ops.h"

namespace amdahl {

/// One micro-batch on this device. `features` [rows, input width of the first layer held here]; `targets`
/// [rows, ModelSpec::target_width()]: values for MSE, class indices for cross-entropy. Device pointers.
struct BatchView {
  const float* features = nullptr;
  const float* targets = nullptr;
  int64_t rows = 0;
  int64_t row_offset = 0;   // index of the first row in the global batch: dropout masks do not depend on the split
  int64_t global_rows = 0;  // rows of the optimizer step over all devices and micro-batches: scales the loss
  const float* tokens = nullptr;  // [rows, steps] with LayerSpec::end_token, above the first stage; null: `features`
};

/// The order in which backward computes the gradients.
enum class GradientOrder {
  layerwise,    // both gradients of a layer, last layer first
  dgrad_first,  // all input gradients, then weight gradients, the largest first: their communication hides behind the
                // rest
  two_streams,  // input gradients on one stream, weight gradients concurrently on another
};

/// How backward runs, and the callbacks for finished gradients.
struct BackwardOptions {
  GradientOrder order = GradientOrder::layerwise;
  Stream* second_stream = nullptr;                     // for two_streams; joined again at the end
  const std::vector<GradientPiece>* pieces = nullptr;  // for dgrad_first and two_streams: the pieces to compute
  const AdamStep* first_weights = nullptr;             // layerwise: fuse this Adam step into the first layer's gradient
  int reserved_sms = 0;  // SMs that work enqueued by `ready` occupies during later gradients
  /// Called after the work completing gradients [begin, end) of the layout was enqueued on `stream`; may be null.
  std::function<void(int64_t begin, int64_t end, Stream& stream)> ready = nullptr;
  /// Called before (`begins`) and after each GEMM is enqueued on `stream`, for time stamps; may be null.
  std::function<void(bool begins, const char* gemm, size_t layer, Stream& stream)> around = nullptr;
};

using LayerFactory = std::function<std::unique_ptr<Layer>(size_t layer, const LayerParameters& parameters)>;

struct ModelOptions {
  int64_t max_rows = 0;  // of a micro-batch
  uint64_t seed = 42;    // of initial parameters and dropout
  LayerRange layers{};   // the layers held here: all, or a pipeline stage
  int num_slots = 1;     // micro-batches in flight
  Recompute recompute = Recompute::none;
  std::vector<WeightShard> shards{};                    // the shards held here, by layer index; empty: whole layers
  LayerFactory make_layer = nullptr;                    // of dense layers; null: layers without tensor parallelism
  TensorGroup* tensor = nullptr;                        // divides the layers of role `divided`; outlives the model
  std::vector<TensorRole> roles{};                      // by layer, with `tensor`
  std::vector<bool> divided_tokens{};                   // by layer, with `tensor`: sequence parallelism; empty: none
  std::shared_ptr<ParameterStorage> storage = nullptr;  // null: of its own, for `layers` and `shards`
};

class Model {
 public:
  /// The device and ops must outlive the model. Throws Error{usage} for a spec that is not valid.
  Model(const ModelSpec& spec, Device& device, Ops& ops, const ModelOptions& options);

  const ModelSpec& spec() const { return spec_; }
  const ParameterLayout& layout() const { return storage_->layout; }
  /// The layers held here, of those in the layout.
  const LayerRange& range() const { return range_; }
  float* params() { return storage_->params->as<float>(); }
  float* grads() { return storage_->grads->as<float>(); }
  /// Where this rank keeps them, which with ZeRO stages 2 and 3 is not params() and grads() by the layout.
  ParameterStorage& storage() { return *storage_; }
  /// For other devices that access these arrays, which may then outlive the model.
  std::shared_ptr<Buffer> shared_params() { return storage_->params; }
  std::shared_ptr<Buffer> shared_grads() { return storage_->grads; }
  /// What the layers held here keep besides parameters, by names as "layers.3.norm.running_mean". With data parallelism
  /// the values of rank 0 are the ones to save.
  std::vector<NamedBuffer> buffers();
  uint64_t* step_counter() { return storage_->step->as<uint64_t>(); }
  /// [0] loss and [1] correct rows of this device's part of the step, on the device.
  float* loss_stats() { return stats_->as<float>(); }

  /// Floats of the input of the first layer held here, and of the output of the last one, for so many rows.
  int64_t input_floats(int64_t rows) const;
  int64_t output_floats(int64_t rows) const;
  /// [rows, output width of the last layer held here]. A token head has none.
  float* outputs(int slot = 0) { return slot_states(slot).back().out(); }
  /// Gradient of `outputs`; written by `loss`, or received from the stage that holds the layers above.
  float* output_gradient(int slot = 0) { return slot_states(slot).back().d_out(); }
  /// Gradient of the features; only in a model part that does not begin with the first layer.
  float* input_gradient(int slot = 0) { return slots_[static_cast<size_t>(slot)].d_input->as<float>(); }

  /// He-normal weights and zero biases drawn on the host from the seed, the same for every backend and every partition
  /// of the model; resets the step count and the buffers. Blocks until the device holds them.
  void initialise(Stream& stream, Deadline deadline);

  /// `training` applies dropout.
  void forward(Stream& stream, const BatchView& batch, bool training, int slot = 0);
  /// A float on the device that `loss` multiplies the gradient by (LossScale); null: 1.
  void scale_gradient(const float* scale) { gradient_scale_ = scale; }
  /// Loss of the slot's last forward into loss_stats (sum over calls when `accumulate`), and its gradient. A token head
  /// computes both in the slot's backward if that forward was of training.
  void loss(Stream& stream, const BatchView& batch, bool accumulate, int slot = 0);
  /// Zeroes loss_stats, of a model part that computes no loss.
  void clear_loss(Stream& stream) { device_.fill_zero(stream, stats_->data(), stats_->bytes()); }
  /// Gradients of the slot's last forward; adds to grads when `accumulate`. Includes the gradient of the features where
  /// another device holds the layers below.
  void backward(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options, int slot = 0);
  /// The two halves of backward, to be called in this order, for schedules that run other work between them. Bias
  /// gradients are computed by the first call, except that of the last layer held here.
  void backward_inputs(Stream& stream, const BatchView& batch, bool accumulate, int slot = 0);
  void backward_weights(Stream& stream, const BatchView& batch, bool accumulate, int slot = 0);

 private:
  /// A micro-batch in flight.
  struct Slot {
    std::vector<LayerState> states;   // of the layers held here
    std::unique_ptr<Buffer> d_input;  // null where the first layer is the model's first
    std::unique_ptr<Buffer> starts;   // DocumentStarts; null: a row is one document
    bool training = true;             // of the last forward
  };
  /// The arguments of one backward call.
  struct Pass {
    Stream& stream;
    const BatchView& batch;
    bool accumulate;
    const BackwardOptions& options;
    Slot& slot;
  };

  std::vector<LayerState>& slot_states(int slot) { return slots_[static_cast<size_t>(slot)].states; }
  LayerState& state(Slot& slot, size_t layer) const { return slot.states[layer - range_.first]; }
  Layer& layer(size_t index) const { return *layers_[index - range_.first]; }
  /// Whether the layer's own parameters are in this rank's layout, so that a tied table is one array here.
  bool is_held(size_t layer) const {
    return layer >= layout().range.first && layer < layout().range.last && !layout().layers[layer].is_table_copy;
  }
  LayerContext layer_context(size_t index);
  /// Whether tensor-parallel ranks divide the tokens of a layer's output.
  bool divides_tokens_of(size_t layer) const {
    return layer < options_.divided_tokens.size() && options_.divided_tokens[layer];
  }
  int64_t divided_floats(const Shape& tokens, int64_t rows) const;
  LayerRows rows_of(const BatchView& batch, const Slot& slot, bool training) const;
  /// The input of a layer: the features, or the output of the layer below.
  const float* input_of(const BatchView& batch, Slot& slot, size_t layer) const;
  /// Whether backward computes the gradient of the layer's input: not for the model's features.
  bool has_input_gradient(size_t layer) const { return layer > 0; }
  float* input_gradient_of(Slot& slot, size_t layer) const;
  GradientEpilogue epilogue_below(const BatchView& batch, Slot& slot, size_t layer) const;
  bool has_own_bias(size_t layer) const { return layer + 1 == range_.last; }

  /// The layer as the storage's gate sees it.
  GatedLayer gated(size_t layer, bool backward) const { return {layer, range_.first, range_.last, backward}; }
  void backward_layerwise(const Pass& pass);
  void backward_dgrad_first(const Pass& pass);
  void backward_two_streams(const Pass& pass);
  void backward_input(const Pass& pass, size_t layer);
  void backward_piece(const Pass& pass, Stream& stream, const GradientPiece& piece, bool first);

  ModelSpec spec_;
  std::shared_ptr<ParameterStorage> storage_;
  LayerRange range_;
  Device& device_;
  Ops& ops_;
  ModelOptions options_;
  const float* gradient_scale_ = nullptr;
  std::unique_ptr<Buffer> stats_;
  Scratch scratch_;
  Scratch typed_;                               // gathered parameters in the compute type
  std::vector<std::unique_ptr<Layer>> layers_;  // of range()
  TokenHead* head_ = nullptr;                   // the last of them, where it is one
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Event>> chain_;  // gradient of a layer's output is complete; awaited by the second stream
  std::unique_ptr<Event> weights_done_;
};

/// The initial parameters in layout order, as `initialise` uploads them.
std::vector<float> initial_parameters(const ModelSpec& spec, const ParameterLayout& layout, uint64_t seed);

}  // namespace amdahl

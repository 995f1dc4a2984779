// Mlp: a multi-layer perceptron on ONE device. It knows nothing of other devices; parallelism wraps it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "amdahl/model_spec.h"
#include "model/parameter_layout.h"
#include "ops/ops.h"

namespace amdahl {

/// One micro-batch on this device. `features` [rows, input_width]; `targets` [rows, output_width] for MSE, [rows] class
/// indices for cross-entropy. Device pointers.
struct BatchView {
  const float* features = nullptr;
  const float* targets = nullptr;
  int64_t rows = 0;
  int64_t row_offset = 0;   // of these rows in the global batch, so that dropout masks do not depend on the split
  int64_t global_rows = 0;  // rows of the optimizer step over all devices and micro-batches: scales the loss
};

/// In what order backward makes the gradients.
enum class GradientOrder {
  layerwise,    // both gradients of a layer, last layer first
  chain_first,  // all input gradients, then weight gradients, the largest first: their communication hides behind the
                // rest
  two_streams,  // input gradients on one stream, weight gradients beside them on another as soon as they can start
};

/// How backward runs, and who hears of finished gradients.
struct BackwardOptions {
  GradientOrder order = GradientOrder::layerwise;
  Stream* second_stream = nullptr;                     // for two_streams; joined again at the end
  const std::vector<GradientPiece>* pieces = nullptr;  // chain_first and two_streams make the gradients piece by piece
  const AdamStep* first_weights = nullptr;  // layerwise: step the first layer's weights as their gradient is made
  int held_sms = 0;                         // multiprocessors that `ready` keeps busy beside the gradients that follow
  /// Called after the work completing gradients [begin, end) of the layout was enqueued on `stream`.
  std::function<void(int64_t begin, int64_t end, Stream& stream)> ready;
  /// Called before (`begins`) and after each product is enqueued on `stream`, for those who time them; may be null.
  std::function<void(bool begins, const char* product, size_t layer, Stream& stream)> around = nullptr;
};

class Mlp {
 public:
  /// Buffers for micro-batches of up to `max_rows`. The device and ops must outlive the model.
  Mlp(const ModelSpec& spec, Device& device, Ops& ops, int64_t max_rows, uint64_t seed);

  const ModelSpec& spec() const { return spec_; }
  const ParameterLayout& layout() const { return layout_; }
  float* params() { return params_->as<float>(); }
  float* grads() { return grads_->as<float>(); }
  /// For other devices that reach these arrays, which may outlive the model then.
  std::shared_ptr<Buffer> shared_params() { return params_; }
  std::shared_ptr<Buffer> shared_grads() { return grads_; }
  uint64_t* step_counter() { return step_->as<uint64_t>(); }
  const float* outputs() { return activations_.back()->as<float>(); }

  /// He-normal weights and zero biases drawn on the host from the seed, the same for every backend; resets the step
  /// count. Blocks until the device holds them.
  void initialise(Stream& stream, Deadline deadline);

  /// `training` applies dropout.
  void forward(Stream& stream, const BatchView& batch, bool training);
  /// Loss of the last forward into the statistics block of grads (sum over calls when `accumulate`), and its gradient.
  void loss(Stream& stream, const BatchView& batch, bool accumulate);
  /// Gradients of the last forward and loss; adds to grads when `accumulate`.
  void backward(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options);

 private:
  void backward_layerwise(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options);
  void backward_chain_first(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options);
  void backward_two_streams(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options);
  void backward_input(Stream& stream, const BatchView& batch, size_t layer, bool accumulate,
                      const BackwardOptions& options);
  void backward_piece(Stream& stream, const BatchView& batch, const GradientPiece& piece, bool accumulate,
                      const BackwardOptions& options, bool first);
  DenseBackwardWeight weight_gradient(const BatchView& batch, size_t layer, bool accumulate);
  DenseBackwardInput input_gradient(const BatchView& batch, size_t layer, bool accumulate);

  ModelSpec spec_;
  ParameterLayout layout_;
  Device& device_;
  Ops& ops_;
  int64_t max_rows_;
  uint64_t seed_;
  std::shared_ptr<Buffer> params_, grads_;
  std::unique_ptr<Buffer> step_;
  std::vector<std::unique_ptr<Buffer>> activations_;  // [max_rows, units] after relu and dropout
  std::vector<std::unique_ptr<Buffer>> d_outputs_;    // [max_rows, units] gradient of the layer's dense output
  std::vector<std::unique_ptr<Event>> chain_;         // input gradient of a layer done, for the second stream
  std::unique_ptr<Event> weights_done_;
  std::vector<std::unique_ptr<Buffer>> masks_;  // bits of "activation != 0", null where the backend wants none
};

/// The initial parameters in layout order, as `initialise` uploads them.
std::vector<float> initial_parameters(const ModelSpec& spec, const ParameterLayout& layout, uint64_t seed);

}  // namespace amdahl

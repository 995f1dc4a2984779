// Layer: one layer of a model on one device. A model calls its layers in order; parallelism wraps the model.
//
// Matrices are row-major f32: rows of the micro-batch, then width. Images that layers of one device pass each other,
// and their gradients, have the compute type. Every call enqueues on `stream` and returns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/optimizer/adam_step.h"

namespace amdahl {

/// From what a token head computes the loss of a micro-batch, and where it adds it (TokenLoss).
struct TokenTargets {
  const float* labels = nullptr;  // [tokens]
  float* stats = nullptr;
  float scale = 1;
  const float* gradient_scale = nullptr;
};

/// What one layer keeps of a micro-batch in flight for its backward pass.
struct LayerState {
  std::unique_ptr<Buffer> output;                // [rows, output width], after activation and dropout
  std::unique_ptr<Buffer> d_output;              // its gradient, with the layer's GradientEpilogue applied
  std::unique_ptr<Buffer> mask{};                // bits of "output != 0"; null where the backend does not use them
  std::vector<std::unique_ptr<Buffer>> saved{};  // of layers other than dense ones: what their backward reads
  const float* input = nullptr;                  // of the last forward; the same layers
  TokenTargets targets{};                        // of a token head
  const void* d_added = nullptr;                 // what is added to d_output, see Layer::added_gradient; null: nothing

  float* out() const { return output->as<float>(); }
  float* d_out() const { return d_output->as<float>(); }
  const uint8_t* mask_bits() const { return mask ? mask->as<uint8_t>() : nullptr; }
};

/// The rows that a call works on, and what their dropout draws depend on.
struct LayerRows {
  int64_t rows = 0;
  int64_t row_offset = 0;           // index of the first row in the global batch
  uint64_t seed = 0;                // of dropout
  const uint64_t* step = nullptr;   // device counter, of dropout
  bool training = true;             // applies dropout and saves what backward needs
  const int32_t* starts = nullptr;  // [rows, steps] where each step's document begins; null: a row is one document
};

/// What turns the gradient of a layer's output into the gradient of its GEMM's result. The layer above applies it in
/// the pass that computes that gradient, so the unmasked gradient is never written to memory. All null: nothing to
/// apply.
struct GradientEpilogue {
  const float* activation = nullptr;  // [rows, width] the output: where it is zero, no gradient passes
  const uint8_t* mask = nullptr;      // its bits, where the backend has them
  float scale = 1.0f;                 // 1 / (1 - p) of dropout
  float* dbias = nullptr;             // [width] receives the column sums
};

/// Rows [begin, end) of a weight, whose gradient is computed, and can be sent, by itself.
struct WeightRows {
  int64_t begin = 0, end = 0;
};

/// Device pointers to a parameter and its gradient.
struct ParameterView {
  float* value = nullptr;
  float* gradient = nullptr;
};

/// A layer's parameters. Dense layers use the first four, `bias` is null without one.
struct LayerParameters {
  float *weight = nullptr, *bias = nullptr;      // [rows, columns] and [rows] of the shard held here
  float *d_weight = nullptr, *d_bias = nullptr;  // their gradients, same shapes
  std::vector<ParameterView> tensors{};  // in the order of parameters_of(); of a tied head: the embedding's table
};

/// Values that a layer keeps between steps and that are not trained: running statistics of a normalisation.
struct NamedBuffer {
  std::string name;       // "norm.running_mean"
  float* data = nullptr;  // [count], of the layer's device
  int64_t count = 0;
  float initial = 0.0f;  // of every value before training
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// In an order that is always the same. Saved models need them; replicas need not hold equal ones.
  virtual std::vector<NamedBuffer> buffers() { return {}; }
  virtual int64_t input_width() const = 0;
  virtual int64_t output_width() const = 0;
  /// Buffers for up to `max_rows` rows.
  virtual LayerState make_state(int64_t max_rows) const = 0;

  /// Where the backward of this layer leaves a second part of the gradient of its input, which the layer below adds to
  /// the first one where it reads it; null: there is one part. The same memory in every step.
  virtual const void* added_gradient(const LayerState& state) const {
    (void)state;
    return nullptr;
  }

  virtual void forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) = 0;
  virtual GradientEpilogue epilogue(const LayerState& state) const {
    (void)state;
    return {};
  }
  /// d_input [rows, input width], with the epilogue of the layer below applied.
  virtual void backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                              const GradientEpilogue& below, bool accumulate) = 0;
  /// Gradient of some rows of the weight. The bias gradient is computed by backward_input of the layer above; with
  /// `own_bias` there is no such layer, so this call computes it. `reserved_sms`: SMs that concurrent work occupies.
  virtual void backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                               WeightRows part, bool own_bias, bool accumulate, int reserved_sms) = 0;
  /// All gradients; with `d_input` null, those of the parameters only.
  virtual void backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                        float* d_input, const GradientEpilogue& below, bool own_bias, bool accumulate) = 0;
  /// The weight gradient and its Adam step in one pass, of a dense layer where the backend has that
  /// (GemmOps::fuses_update).
  virtual void backward_update(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                               const AdamStep& adam) {
    (void)stream, (void)rows, (void)input, (void)state, (void)adam;
    throw Error(Cause::internal, "only dense layers update their weights within backward");
  }
};

}  // namespace amdahl

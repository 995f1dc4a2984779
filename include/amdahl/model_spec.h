// ModelSpec: the architecture of a model, with its number of parameters, operations and activation bytes. Plain data
// without tensors.
//
// Example: two hidden layers.
//   amdahl::ModelSpec model{"mine", 50, {{256}, {64}, {3, true, amdahl::Activation::none}}};
//   model.validate();
//   std::printf("%lld parameters\n", static_cast<long long>(model.num_parameters()));
//
// All functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

enum class Activation { none, relu };
enum class LossKind { mse, softmax_cross_entropy };

/// One dense layer: y = dropout(activation(x W^T + b)), W [units, input_width], b [units].
struct DenseSpec {
  int64_t units = 0;
  bool bias = true;
  Activation activation = Activation::relu;
  double dropout = 0.0;  // probability of zeroing an output, in [0, 1); above 0 it requires activation relu
};

/// A multi-layer perceptron.
struct AMDAHL_API ModelSpec {
  std::string name;
  int64_t input_width = 0;
  std::vector<DenseSpec> layers;
  LossKind loss = LossKind::mse;

  int64_t output_width() const { return layers.empty() ? 0 : layers.back().units; }
  int64_t layer_input_width(size_t layer) const { return layer == 0 ? input_width : layers[layer - 1].units; }

  /// Trainable parameters: sum over layers of units * input_width + (bias ? units : 0).
  int64_t num_parameters() const;
  /// FLOP of forward and backward of one step of `batch` rows: 2 per multiply-add, without the unused input gradient of
  /// the first layer.
  double step_flops(int64_t batch) const;
  /// Bytes of f32 activations and activation gradients held during one step of `batch` rows.
  int64_t activation_bytes(int64_t batch) const;
  /// Throws Error{usage} that names the first field out of range.
  void validate() const;
};

/// The models of the published study: "medium" and "large" as its code defines them (54,403 and 2,021,379 parameters),
/// "medium-258k" and "large-6.9m" as its text states them (258,432 and 6,885,376).
AMDAHL_API const std::vector<ModelSpec>& model_presets();
/// Preset by name. Error{usage} for an unknown name, with the nearest name and the list.
AMDAHL_API ModelSpec find_model_preset(std::string_view name);
/// The model with the widths of its data and the loss of its target; hidden layers stay. The model must have a layer.
AMDAHL_API ModelSpec fit_to_data(ModelSpec model, int64_t input_width, int64_t output_width, LossKind loss);

}  // namespace amdahl

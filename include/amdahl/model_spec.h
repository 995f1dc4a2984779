// ModelSpec: what is trained. Plain data: layers, parameters, operations and activation bytes; no tensors.
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
  double dropout = 0.0;  // probability of zeroing, in [0, 1); needs activation relu when > 0
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
  /// Multiply-adds counted as 2, forward and backward, without the unused input gradient of the first layer.
  double step_flops(int64_t batch) const;
  /// Bytes of f32 activations and activation gradients held during one step of `batch` rows.
  int64_t activation_bytes(int64_t batch) const;
  /// Throws Error{usage} naming the first field that is out of range.
  void validate() const;
};

/// The study's presets: "medium", "large" (as coded, 54,403 and 2,021,379 parameters), "medium-258k", "large-6.9m" (as
/// stated).
AMDAHL_API const std::vector<ModelSpec>& model_presets();
/// Preset by name; throws Error{usage} with the nearest name and the list.
AMDAHL_API ModelSpec find_model_preset(std::string_view name);
/// The same hidden layers on other data: input and output widths follow the data, the loss follows the target.
AMDAHL_API ModelSpec fit_to_data(ModelSpec model, int64_t input_width, int64_t output_width, LossKind loss);

}  // namespace amdahl

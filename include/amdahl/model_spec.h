// ModelSpec: the architecture of a model, a chain of layers, with its number of parameters, operations and activation
// bytes. Plain data without tensors.
//
// Example: two hidden layers.
//   amdahl::ModelSpec model{"mine", 50, {{256}, {64}, {3, true, amdahl::Activation::none}}};
//   model.validate();
//   std::printf("%lld parameters\n", static_cast<long long>(model.num_parameters()));
//
// Example: the smallest GPT-2.
//   const amdahl::ModelSpec gpt2 = amdahl::find_model_preset("gpt2");
//
// All functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/plan.h"

namespace amdahl {

enum class Activation { none, relu };
enum class LossKind { mse, softmax_cross_entropy };

/// What a layer computes; `layer_kinds()` of src/base/layer_kinds.h has a row for each. Shapes are those of one row of
/// the batch.
enum class LayerKind {
  dense,              // [width] -> [units]
  embedding,          // tokens [steps] -> [steps, units]
  projection,         // [steps, features] -> [steps, units]
  transformer_block,  // [steps, units] -> [steps, units]
  layer_norm,         // [steps, units] -> [steps, units]
  pool,               // [steps, units] -> [units]
  lstm,               // [steps, features] -> [steps, units], or [units] of the last step
  gru,                // the same
  conv,               // [height, width, channels] -> [.., .., units]: convolution, batch normalisation, ReLU
  residual_block,     // the same: two 3x3 convolutions and a shortcut
  average_pool,       // [height, width, channels] -> [channels]
  token_head,         // [steps, units] -> logits [steps, vocabulary]
};

/// Which step a pooling layer keeps, or their mean.
enum class Pooling { mean, first, last };

/// One layer. Members that a kind does not use keep their defaults.
struct LayerSpec {
  int64_t units = 0;  // features per row, step or pixel of the output
  bool bias = true;   // dense: y = dropout(activation(x W^T + b)), W [units, width], b [units]
  Activation activation = Activation::relu;
  double dropout = 0.0;  // dense: probability of zeroing an output, in [0, 1); above 0 it requires activation relu
  LayerKind kind = LayerKind::dense;
  int64_t vocabulary = 0;   // embedding, token_head: number of tokens
  bool positions = true;    // embedding, projection: adds a learned vector per step
  int64_t max_steps = 0;    // embedding, projection: learned positions; 0: as many as the input has steps
  int64_t token_types = 0;  // embedding: learned vectors of token types, of which type 0 is added to every token
  int64_t heads = 0;        // transformer_block: attention heads; they divide units
  bool causal = false;      // transformer_block: a step attends to itself and earlier steps only
  bool post_norm = false;   // transformer_block: normalises after each residual addition (BERT), else before (GPT-2)
  Pooling pooling = Pooling::mean;
  bool last_step_only = false;     // lstm, gru: the output is that of the last step
  int64_t kernel = 3, stride = 1;  // conv, residual_block
  bool tied = false;               // token_head: its weight is the table of the embedding, the first layer

  bool operator==(const LayerSpec&) const = default;
};

/// A chain of layers.
struct AMDAHL_API ModelSpec {
  std::string name;
  int64_t input_width = 0;  // features of a row, all dimensions together
  std::vector<LayerSpec> layers;
  LossKind loss = LossKind::mse;
  std::vector<int64_t> input_shape{};  // [steps, features], [steps] of tokens, [height, width, channels]; empty:
                                       // [input_width]

  /// Shape of a layer's input and output of one row. Layers must chain (`validate`).
  std::vector<int64_t> layer_input_shape(size_t layer) const;
  std::vector<int64_t> layer_output_shape(size_t layer) const;
  int64_t layer_input_width(size_t layer) const;   // product of the input shape
  int64_t layer_output_width(size_t layer) const;  // product of the output shape
  /// Targets per row (mse), or classes (cross-entropy).
  int64_t output_width() const;
  /// Class indices per row under cross-entropy: one, or one per step for a model that classifies tokens.
  int64_t labels_per_row() const;
  /// Floats of the targets of a row: output_width for mse, labels_per_row for cross-entropy.
  int64_t target_width() const;
  /// Number of tokens that the input may hold; 0 where the input is not tokens.
  int64_t vocabulary() const;
  /// Whether it has layers other than dense ones.
  bool is_mlp() const;

  /// Trainable parameters, without padding of the vocabulary; a tied weight counts once.
  int64_t num_parameters() const;
  /// Throws Error{usage} that names the first field out of range, or the first layer whose input does not fit.
  void validate() const;
};

/// FLOP of forward and backward of one step of `batch` rows: 2 per multiply-add of matrix products, convolutions and
/// attention (of whole scores, masked or not), without the gradient of the features and without recomputation.
AMDAHL_API double step_flops(const ModelSpec& model, int64_t batch);

/// The models of the published study, "medium" and "large" as its code defines them (54,403 and 2,021,379 parameters),
/// "medium-258k" and "large-6.9m" as its text states them (258,432 and 6,885,376); sequence models "lstm", "gru" and
/// "transformer"; "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"; "bert-base"; "resnet18", "resnet34" for images of
/// 32 x 32 pixels.
AMDAHL_API const std::vector<ModelSpec>& model_presets();
/// Preset by name. Error{usage} for an unknown name, with the nearest name and the list.
AMDAHL_API ModelSpec find_model_preset(std::string_view name);
/// The model with the input shape of its data, and the width and loss of its target; hidden layers stay. The model must
/// have a layer. Error{usage} when the first layer cannot take such an input.
AMDAHL_API ModelSpec fit_to_data(ModelSpec model, const std::vector<int64_t>& input_shape, int64_t output_width,
                                 LossKind loss);

}  // namespace amdahl

#include "base/layer_memory.h"

#include <algorithm>

#include "base/cpu_scratch.h"

namespace amdahl {
namespace {

constexpr int64_t kF32 = sizeof(float);

int64_t bytes_of(DType type) { return static_cast<int64_t>(size_of(type)); }
bool converts(const MemoryChoice& choice) { return choice.type != DType::f32; }

/// Bytes of the layer's parameters in the compute type; none where that is f32.
int64_t typed_parameters(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  if (!converts(choice)) return 0;
  int64_t floats = 0;
  for (const ParameterSpec& parameter : parameters_of(layer, input)) floats += parameter.stored_floats();
  return floats * bytes_of(choice.type);
}

/// A copy of the input in the compute type; none where that is f32.
int64_t typed_input(const Shape& input, const MemoryChoice& choice) {
  return converts(choice) ? count_of(input) * bytes_of(choice.type) : 0;
}

}  // namespace

LayerMemory output_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice&) {
  return {2 * count_of(row_of(layer.kind).output(layer, input)) * kF32, 0, 0};
}

DType projection_type(const Shape& input, DType type) { return input[1] % 8 == 0 ? type : DType::f32; }

LayerMemory projection_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  const MemoryChoice own{choice.recompute, projection_type(input, choice.type)};
  const int64_t values = input[0] * layer.units;
  return {2 * values * kF32 + typed_input(input, own), values * bytes_of(own.type),
          typed_parameters(layer, input, own)};
}

// Per step: attention's q, k, v and output in the compute type, the sum after it, and a sum of exponentials per head;
// two normalised inputs, and input and output of GELU in the compute type; means and deviations of the normalisations.
// A block that normalises after its additions keeps two more rows of f32.
LayerMemory block_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  const int64_t steps = input[0], d = layer.units, typed = bytes_of(choice.type), post_norm = layer.post_norm ? 1 : 0;
  const int64_t attention = 4 * d * typed + (d + layer.heads + 2 + post_norm * d) * kF32;
  const int64_t others = 10 * d * typed + (2 + post_norm * d) * kF32;
  const int64_t gradients = 6 * d * typed + 2 * d * kF32;
  int64_t kept = 2 * d * kF32, shared = gradients;
  (choice.recompute == Recompute::block ? shared : kept) += attention;
  (choice.recompute == Recompute::none ? kept : shared) += others;
  return {steps * kept, steps * shared, typed_parameters(layer, input, choice)};
}

LayerMemory norm_memory(const LayerSpec&, const Shape& input, const MemoryChoice&) {
  return {2 * (count_of(input) + input[0]) * kF32, 0, 0};
}

// Activations of the gates and two states of each step, in rows of whole vectors. A GPU computes the gradients of all
// gates, padded to four, before the products with them.
LayerMemory recurrent_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  const auto padded = [&](int64_t width) { return choice.gpu ? (width + 15) / 16 * 16 : padded_width(width); };
  const int64_t gates = layer.kind == LayerKind::lstm ? 4 : 3;
  LayerMemory memory = output_memory(layer, input, choice);
  memory.kept += input[0] * (padded(gates * layer.units) + 2 * padded(layer.units)) * kF32;
  if (choice.gpu) memory.shared = input[0] * 4 * layer.units * bytes_of(choice.type);
  return memory;
}

LayerMemory conv_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  const int64_t values = count_of(row_of(layer.kind).output(layer, input)), typed = bytes_of(choice.type);
  const int64_t passed = choice.images_above ? typed : kF32;
  // Also the size of what is kept of one convolution.
  const int64_t shared = values * typed + (choice.images_below ? 0 : typed_input(input, choice));
  return {2 * values * passed + shared, shared, 4 * layer.units * kF32 + typed_parameters(layer, input, choice)};
}

LayerMemory residual_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  const int64_t values = count_of(row_of(layer.kind).output(layer, input)), typed = bytes_of(choice.type);
  const int64_t shortcut = has_shortcut(layer, input) ? 1 : 0, passed = choice.images_above ? typed : kF32;
  const int64_t converted = choice.images_below ? 0 : typed_input(input, choice);
  const bool has_second_part = choice.images_below && (shortcut > 0 || passed != typed);  // of the input's gradient
  return {2 * values * passed + (3 + shortcut) * values * typed + converted +
              (has_second_part ? count_of(input) * typed : 0),
          2 * values * typed + converted,
          (2 + shortcut) * 4 * layer.units * kF32 + typed_parameters(layer, input, choice)};
}

// The loss overwrites the logits with their gradient.
LayerMemory head_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice) {
  const int64_t padded = padded_vocabulary(layer.vocabulary), typed = bytes_of(choice.type);
  return {input[0] * padded * typed + typed_input(input, choice), 0, converts(choice) ? padded * input[1] * typed : 0};
}

LayerMemory memory_of_layer(const ModelSpec& model, size_t index, MemoryChoice choice, size_t first, size_t last) {
  const auto passes = [&](size_t below) {
    return passes_images(model.layers[below].kind, model.layers[below + 1].kind);
  };
  choice.images_below = index > first && passes(index - 1);
  choice.images_above = index + 1 < std::min(last, model.layers.size()) && passes(index);
  return row_of(model.layers[index].kind).memory(model.layers[index], model.layer_input_shape(index), choice);
}

}  // namespace amdahl

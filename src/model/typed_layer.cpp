#include "model/typed_layer.h"

#include <fmt/format.h>

#include <map>

namespace amdahl {

LayerState TypedLayer::make_state(int64_t max_rows) const {
  const int64_t floats =
      context_.gives_part ? output_tokens(max_rows).each() * context_.output[1] : max_rows * output_width();
  const DType passed = context_.images_above ? type_ : DType::f32;
  return {buffer(floats, passed), buffer(floats, passed)};
}

void TypedLayer::finish_gradients(Stream& stream, TensorGroup& group, float* sums, const std::vector<size_t>& tensors,
                                  int64_t width, bool accumulate) const {
  group.sum(stream, sums, static_cast<int64_t>(tensors.size()) * width, DType::f32);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const float* const from = sums + static_cast<int64_t>(i) * width;
    float* const to = tensor(tensors[i]).gradient;
    if (accumulate)
      ops().norm().residual_add(stream, {to, from, to, width, DType::f32});
    else
      context_.device.copy_within(stream, to, from, static_cast<size_t>(width) * sizeof(float));
  }
}

void TypedLayer::forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) {
  state.input = input;
  compute(stream, rows, input, state);
}

void TypedLayer::backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                                const GradientEpilogue& below, bool accumulate) {
  backward(stream, rows, state.input, state, d_input, below, false, accumulate);
}

void TypedLayer::backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                                 WeightRows, bool, bool accumulate, int) {
  if (context_.index != 0) return;
  if (context_.typed && converts_) convert_parameters(stream);
  gradients(stream, rows, input, state, nullptr, accumulate);
}

void TypedLayer::backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                          float* d_input, const GradientEpilogue& below, bool, bool accumulate) {
  if (below.activation || below.dbias || below.scale != 1.0f)
    throw Error(Cause::internal, "a layer that is not dense follows a dense one");
  if (context_.typed && converts_) convert_parameters(stream);
  gradients(stream, rows, input, state, d_input, accumulate);
}

void TypedLayer::convert_parameters(Stream& stream) {
  if (computes_in_f32()) return;
  converts_ = true;
  if (!typed_parameters_ && !context_.typed) typed_parameters_ = buffer(context_.stored_floats, type_);
  void* const typed = typed_parameters_ ? typed_parameters_->data() : context_.typed->data();
  ops().matmul().convert(stream, context_.first_parameter, typed, type_, context_.stored_floats);
}

const void* TypedLayer::typed(size_t index) const {
  const float* value = tensor(index).value;
  if (computes_in_f32()) return value;
  const std::byte* const first = typed_parameters_ ? typed_parameters_->as<std::byte>() : context_.typed->data();
  return first + (value - context_.first_parameter) * static_cast<int64_t>(size_of(type_));
}

// A kind's function is in the file of its class.
using LayerMaker = std::unique_ptr<Layer>(const LayerContext& context);
LayerMaker make_embedding_layer, make_projection_layer, make_transformer_block, make_norm_layer, make_pool_layer,
    make_recurrent_layer, make_convolutions, make_max_pool_layer, make_average_pool_layer;

std::unique_ptr<Layer> make_typed_layer(const LayerContext& context) {
  static const std::map<LayerKind, LayerMaker*> makers{{LayerKind::embedding, make_embedding_layer},
                                                       {LayerKind::projection, make_projection_layer},
                                                       {LayerKind::transformer_block, make_transformer_block},
                                                       {LayerKind::layer_norm, make_norm_layer},
                                                       {LayerKind::pool, make_pool_layer},
                                                       {LayerKind::lstm, make_recurrent_layer},
                                                       {LayerKind::gru, make_recurrent_layer},
                                                       {LayerKind::conv, make_convolutions},
                                                       {LayerKind::residual_block, make_convolutions},
                                                       {LayerKind::average_pool, make_average_pool_layer},
                                                       {LayerKind::max_pool, make_max_pool_layer}};
  const auto found = makers.find(context.spec.kind);
  if (found == makers.end())
    throw Error(Cause::internal, fmt::format("no class for layers of kind {}", row_of(context.spec.kind).name));
  return found->second(context);
}

}  // namespace amdahl

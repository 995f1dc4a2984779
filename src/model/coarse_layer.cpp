#include "model/coarse_layer.h"

namespace amdahl {

LayerState CoarseLayer::make_state(int64_t max_rows) const {
  const int64_t floats =
      context_.gives_part ? output_tokens(max_rows).each() * context_.output[1] : max_rows * output_width();
  const DType passed = context_.images_above ? type_ : DType::f32;
  return {buffer(floats, passed), buffer(floats, passed)};
}

void CoarseLayer::finish_gradients(Stream& stream, float* sums, const std::vector<size_t>& tensors, int64_t width,
                                   bool accumulate) const {
  context_.tokens->sum(stream, sums, static_cast<int64_t>(tensors.size()) * width, DType::f32);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const float* const from = sums + static_cast<int64_t>(i) * width;
    float* const to = tensor(tensors[i]).gradient;
    if (accumulate)
      ops().norm().residual_add(stream, {to, from, to, width, DType::f32});
    else
      context_.device.copy_within(stream, to, from, static_cast<size_t>(width) * sizeof(float));
  }
}

void CoarseLayer::forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) {
  state.input = input;
  compute(stream, rows, input, state);
}

void CoarseLayer::backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                                 const GradientEpilogue& below, bool accumulate) {
  backward(stream, rows, state.input, state, d_input, below, false, accumulate);
}

void CoarseLayer::backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                                  WeightRows, bool, bool accumulate, int) {
  if (context_.index != 0) return;
  if (context_.typed && converts_) convert_parameters(stream);
  gradients(stream, rows, input, state, nullptr, accumulate);
}

void CoarseLayer::backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                           float* d_input, const GradientEpilogue& below, bool, bool accumulate) {
  if (below.activation || below.dbias || below.scale != 1.0f)
    throw Error(Cause::internal, "a layer that is not dense follows a dense one");
  if (context_.typed && converts_) convert_parameters(stream);
  gradients(stream, rows, input, state, d_input, accumulate);
}

void CoarseLayer::backward_update(Stream&, const LayerRows&, const float*, const LayerState&, const AdamStep&) {
  throw Error(Cause::internal, "only dense layers update their weights within backward");
}

void CoarseLayer::convert_parameters(Stream& stream) {
  if (computes_in_f32()) return;
  converts_ = true;
  if (!typed_parameters_ && !context_.typed) typed_parameters_ = buffer(context_.stored_floats, type_);
  void* const typed = typed_parameters_ ? typed_parameters_->data() : context_.typed->data();
  ops().matmul().convert(stream, context_.first_parameter, typed, type_, context_.stored_floats);
}

const void* CoarseLayer::typed(size_t index) const {
  const float* value = tensor(index).value;
  if (computes_in_f32()) return value;
  const std::byte* const first = typed_parameters_ ? typed_parameters_->as<std::byte>() : context_.typed->data();
  return first + (value - context_.first_parameter) * static_cast<int64_t>(size_of(type_));
}

std::unique_ptr<Layer> make_coarse_layer(const LayerContext& context) {
  switch (context.spec.kind) {
    case LayerKind::embedding:
      return make_embedding_layer(context);
    case LayerKind::projection:
      return make_projection_layer(context);
    case LayerKind::transformer_block:
      return make_transformer_block(context);
    case LayerKind::layer_norm:
      return make_norm_layer(context);
    case LayerKind::pool:
      return make_pool_layer(context);
    case LayerKind::lstm:
    case LayerKind::gru:
      return make_recurrent_layer(context);
    case LayerKind::conv:
      return make_conv_layer(context);
    case LayerKind::residual_block:
      return make_residual_block(context);
    case LayerKind::average_pool:
      return make_average_pool_layer(context);
    case LayerKind::token_head:
      return make_token_head(context);
    case LayerKind::dense:
      break;
  }
  throw Error(Cause::internal, "a dense layer is not a coarse one");
}

}  // namespace amdahl

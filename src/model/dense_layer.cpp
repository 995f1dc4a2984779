#include "model/dense_layer.h"

namespace amdahl {

LayerState DenseLayer::make_state(int64_t max_rows) const {
  const auto matrix = [&] { return device_.allocate(static_cast<size_t>(max_rows * spec_.units) * sizeof(float)); };
  LayerState state{matrix(), matrix(), nullptr};
  const int64_t mask_bytes = spec_.activation == Activation::relu ? ops_.mask_bytes(max_rows, spec_.units) : 0;
  if (mask_bytes > 0) state.mask = device_.allocate(static_cast<size_t>(mask_bytes));
  return state;
}

void DenseLayer::forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) {
  DenseForward dense{.x = input,
                     .w = parameters_.weight,
                     .bias = parameters_.bias,
                     .y = state.out(),
                     .batch = rows.rows,
                     .in = input_width_,
                     .out = spec_.units,
                     .relu = spec_.activation == Activation::relu};
  dense.mask = rows.training && state.mask ? state.mask->as<uint8_t>() : nullptr;
  if (rows.training && spec_.dropout > 0)
    dense.dropout = {spec_.dropout, rows.seed, rows.step, static_cast<uint32_t>(index_), rows.row_offset};
  ops_.dense_forward(stream, dense);
}

GradientEpilogue DenseLayer::epilogue(const LayerState& state) const {
  const bool relu = spec_.activation == Activation::relu;
  return {.activation = relu ? state.out() : nullptr,
          .mask = relu ? state.mask_bits() : nullptr,
          .scale = static_cast<float>(1.0 / (1.0 - spec_.dropout)),
          .dbias = parameters_.d_bias};
}

DenseBackwardInput DenseLayer::input_gradient(const LayerRows& rows, const LayerState& state, float* d_input,
                                              const GradientEpilogue& below, bool accumulate) const {
  return {.dy = state.d_out(),
          .w = parameters_.weight,
          .activation = below.activation,
          .dx = d_input,
          .dbias = below.dbias,
          .batch = rows.rows,
          .in = input_width_,
          .out = spec_.units,
          .scale = below.scale,
          .accumulate = accumulate,
          .mask = below.mask};
}

DenseBackwardWeight DenseLayer::weight_gradient(const LayerRows& rows, const float* input, const LayerState& state,
                                                bool own_bias, bool accumulate) const {
  return {.x = input,
          .dy = state.d_out(),
          .dw = parameters_.d_weight,
          .dbias = own_bias ? parameters_.d_bias : nullptr,
          .batch = rows.rows,
          .in = input_width_,
          .out = spec_.units,
          .accumulate = accumulate};
}

void DenseLayer::backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                                const GradientEpilogue& below, bool accumulate) {
  ops_.dense_backward_input(stream, input_gradient(rows, state, d_input, below, accumulate));
}

void DenseLayer::backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                                 WeightRows part, bool own_bias, bool accumulate, int reserved_sms) {
  DenseBackwardWeight weight = weight_gradient(rows, input, state, own_bias, accumulate);
  weight.dy_stride = weight.out;
  weight.dy += part.begin;
  weight.dw += part.begin * weight.in;
  weight.out = part.end - part.begin;
  weight.reserved_sms = reserved_sms;
  ops_.dense_backward_weight(stream, weight);
}

void DenseLayer::backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                          float* d_input, const GradientEpilogue& below, bool own_bias, bool accumulate) {
  const DenseBackwardWeight weight = weight_gradient(rows, input, state, own_bias, accumulate);
  if (!d_input) return ops_.dense_backward(stream, weight, nullptr);
  const DenseBackwardInput gradient = input_gradient(rows, state, d_input, below, accumulate);
  ops_.dense_backward(stream, weight, &gradient);
}

void DenseLayer::backward_update(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                                 const AdamStep& adam) {
  ops_.dense_backward_update(stream, weight_gradient(rows, input, state, false, false), adam);
}

}  // namespace amdahl

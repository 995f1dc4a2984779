// The operations that the parts of a transformer block have in common: normalisations and products.
#include "model/transformer_block.h"

namespace amdahl {

std::vector<size_t> TransformerBlock::norm_parameters() const {
  std::vector<size_t> all;
  for (const BlockParameter parameter : {kNorm1Weight, kNorm1Bias, kNorm2Weight, kNorm2Bias})
    if (has(parameter)) all.push_back(static_cast<size_t>(index_[parameter]));
  return all;
}

void TransformerBlock::normalise(Stream& stream, int64_t n, const float* x, const void* delta, float* sum,
                                 BlockParameter weight, void* y, DType y_type, float* mean, float* rstd) const {
  if (n == 0) return;  // a rank without tokens
  ops().norm().layer_norm_forward(stream, {.x = x,
                                           .delta = delta,
                                           .sum = sum,
                                           .gamma = value(weight),
                                           .beta = value(bias_of(weight)),
                                           .y = y,
                                           .mean = mean,
                                           .rstd = rstd,
                                           .rows = n,
                                           .width = width_,
                                           .epsilon = static_cast<float>(spec().epsilon),
                                           .type = type(),
                                           .y_type = y_type});
}

void TransformerBlock::norm_gradient(Stream& stream, int64_t n, const void* dy, DType dy_type, const float* x,
                                     BlockParameter weight, const float* mean, const float* rstd,
                                     const float* d_residual, const BlockGradients& g, float* dx, void* dx_typed,
                                     bool accumulate) const {
  const int64_t floats = (is_centred() ? 2 : 1) * width_;  // of the gradients of one normalisation
  float* const sums = g.sums ? g.sums + (weight == kNorm1Weight ? 0 : floats) : nullptr;
  if (n == 0) return context().device.fill_zero(stream, sums, static_cast<size_t>(floats) * sizeof(float));
  float* const summed_bias = sums && is_centred() ? sums + width_ : nullptr;
  ops().norm().layer_norm_backward(stream, {.dy = dy,
                                            .x = x,
                                            .gamma = value(weight),
                                            .mean = mean,
                                            .rstd = rstd,
                                            .d_residual = d_residual,
                                            .dx = dx,
                                            .dx_typed = computes_in_f32() ? nullptr : dx_typed,
                                            .dgamma = sums ? sums : gradient(weight),
                                            .dbeta = sums ? summed_bias : gradient(bias_of(weight)),
                                            .rows = n,
                                            .width = width_,
                                            .type = type(),
                                            .dy_type = dy_type,
                                            .accumulate = accumulate && !sums});
}

void TransformerBlock::linear(Stream& stream, int64_t n, const void* x, int64_t in, BlockParameter weight, int64_t out,
                              void* y, void* before_gelu, bool adds_bias) const {
  const void* const bias = adds_bias ? typed_value(bias_of(weight)) : nullptr;
  ops().matmul().matmul(stream, {.a = x,
                                 .b = typed_value(weight),
                                 .c = y,
                                 .m = n,
                                 .n = out,
                                 .k = in,
                                 .transpose_b = true,
                                 .type = type(),
                                 .c_type = type(),
                                 .epilogue = before_gelu ? MatMulEpilogue::bias_gelu
                                             : bias      ? MatMulEpilogue::bias
                                                         : MatMulEpilogue::none,
                                 .bias = bias,
                                 .aux = before_gelu});
}

const void* TransformerBlock::joined(Stream& stream, const TokenPart& tokens, const void* x, int64_t in,
                                     BlockParameter weight, void* y) const {
  linear(stream, tokens.all(), x, in, weight, width_, y, nullptr, place().rank == 0);
  sum_branch(stream, tokens, y);
  return tokens.mine(y, width_, type());
}

void TransformerBlock::sum_branch(Stream& stream, const TokenPart& tokens, void* data) const {
  if (tokens.is_divided()) return tokens.sum(stream, data, width_, type());
  sum_parts(stream, data, tokens.all() * width_, type());
}

void TransformerBlock::weight_gradient(Stream& stream, int64_t n, const void* dy, int64_t out, const void* x,
                                       int64_t in, BlockParameter weight, bool accumulate, bool bias_done) const {
  float* const dbias = bias_done ? nullptr : gradient(bias_of(weight));
  ops().matmul().matmul(stream, {.a = dy,
                                 .b = x,
                                 .c = gradient(weight),
                                 .m = out,
                                 .n = in,
                                 .k = n,
                                 .transpose_a = true,
                                 .type = type(),
                                 .epilogue = dbias ? MatMulEpilogue::sum_rows_of_a : MatMulEpilogue::none,
                                 .dbias = dbias,
                                 .accumulate = accumulate,
                                 .accumulate_dbias = accumulate});
}

void TransformerBlock::input_gradient(Stream& stream, int64_t n, const void* dy, int64_t out, BlockParameter weight,
                                      int64_t in, void* dx, void* before_gelu, float* dbias, bool accumulate) const {
  ops().matmul().matmul(stream, {.a = dy,
                                 .b = typed_value(weight),
                                 .c = dx,
                                 .m = n,
                                 .n = in,
                                 .k = out,
                                 .type = type(),
                                 .c_type = type(),
                                 .epilogue = before_gelu ? MatMulEpilogue::gelu_gradient : MatMulEpilogue::none,
                                 .aux = before_gelu,
                                 .dbias = dbias,
                                 .accumulate_dbias = accumulate});
}

}  // namespace amdahl

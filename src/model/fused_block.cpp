#include "model/fused_block.h"

namespace amdahl {

FusedBlock::FusedBlock(Ops& ops, const BlockShape& shape) : ops_(ops), shape_(shape) {
  TransformerBlockOps* const kernels = ops.transformer_block();
  has_forward_ = kernels && kernels->has_forward(shape);
  has_backward_ = kernels && kernels->has_backward(shape);
}

void FusedBlock::forward(Stream& stream, int64_t rows, const Forward& a) const {
  const auto& typed = a.parameters.typed;
  const auto value = [&](size_t index) { return a.parameters.f32[index].value; };
  const BlockSaved& saved = a.saved;
  ops_.transformer_block()->forward(stream, shape_.type,
                                    {.sequences = static_cast<int>(rows),
                                     .steps = static_cast<int>(shape_.steps),
                                     .heads = static_cast<int>(shape_.heads),
                                     .causal = shape_.causal,
                                     .x = a.input,
                                     .gamma1 = value(kNorm1Weight),
                                     .beta1 = value(kNorm1Bias),
                                     .gamma2 = value(kNorm2Weight),
                                     .beta2 = value(kNorm2Bias),
                                     .qkv_weight = typed[kQkvWeight],
                                     .qkv_bias = typed[kQkvBias],
                                     .out_weight = typed[kOutWeight],
                                     .out_bias = typed[kOutBias],
                                     .up_weight = typed[kUpWeight],
                                     .up_bias = typed[kUpBias],
                                     .down_weight = typed[kDownWeight],
                                     .down_bias = typed[kDownBias],
                                     .norm1 = saved.norm1,
                                     .qkv = saved.qkv,
                                     .attention = saved.attention,
                                     .middle = saved.middle,
                                     .norm2 = saved.norm2,
                                     .up = saved.up,
                                     .gelu = saved.gelu,
                                     .mean1 = saved.mean1,
                                     .rstd1 = saved.rstd1,
                                     .mean2 = saved.mean2,
                                     .rstd2 = saved.rstd2,
                                     .log_sums = saved.log_sums,
                                     .out = a.output});
}

void FusedBlock::backward(Stream& stream, int64_t rows, const Backward& a) const {
  TransformerBlockOps& kernels = *ops_.transformer_block();
  const auto& typed = a.parameters.typed;
  const BlockSaved& saved = a.saved;
  const BlockGradients& g = a.gradients;
  const bool is_f32 = shape_.type == DType::f32;
  kernels.backward(stream, shape_.type,
                   {.sequences = static_cast<int>(rows),
                    .steps = static_cast<int>(shape_.steps),
                    .heads = static_cast<int>(shape_.heads),
                    .causal = shape_.causal,
                    .x = a.input,
                    .middle = saved.middle,
                    .qkv = saved.qkv,
                    .attention = saved.attention,
                    .up = saved.up,
                    .log_sums = saved.log_sums,
                    .mean1 = saved.mean1,
                    .rstd1 = saved.rstd1,
                    .mean2 = saved.mean2,
                    .rstd2 = saved.rstd2,
                    .gamma1 = a.parameters.f32[kNorm1Weight].value,
                    .gamma2 = a.parameters.f32[kNorm2Weight].value,
                    .qkv_weight = typed[kQkvWeight],
                    .out_weight = typed[kOutWeight],
                    .up_weight = typed[kUpWeight],
                    .down_weight = typed[kDownWeight],
                    .d_out = a.d_output,
                    .dx = a.d_input ? a.d_input : g.unused,
                    .d_middle = g.middle,
                    .norm_partials = g.norm_partials,
                    .d_out_typed = is_f32 ? nullptr : g.branch,
                    .d_middle_typed = is_f32 ? nullptr : g.narrow,
                    .d_up = g.wide,
                    .d_qkv = g.qkv});
  weight_gradients(stream, rows * shape_.steps, a);
}

void FusedBlock::weight_gradients(Stream& stream, int64_t tokens, const Backward& a) const {
  const BlockSaved& saved = a.saved;
  const BlockGradients& g = a.gradients;
  const bool is_f32 = shape_.type == DType::f32;
  const auto gradient = [&](size_t index) { return a.parameters.f32[index].gradient; };
  const auto width = static_cast<int>(shape_.width), hidden = static_cast<int>(shape_.hidden);
  const auto product = [&](const void* dy, int out, const void* x, int in, size_t weight) {
    return WeightProduct{dy, x, gradient(weight), gradient(weight + 1), out, in};
  };
  const void* const d_out = is_f32 ? a.d_output : g.branch;
  const void* const d_middle = is_f32 ? g.middle : g.narrow;
  WeightGradients all{
      .products = {product(d_out, width, saved.gelu, hidden, kDownWeight),
                   product(g.wide, hidden, saved.norm2, width, kUpWeight),
                   product(d_middle, width, saved.attention, width, kOutWeight),
                   product(g.qkv, 3 * width, saved.norm1, width, kQkvWeight)},
      .num_products = 4,
      .tokens = static_cast<int>(tokens),
      .partials = g.norm_partials,
      .results = {gradient(kNorm1Weight), gradient(kNorm1Bias), gradient(kNorm2Weight), gradient(kNorm2Bias)},
      .parts = static_cast<int>(tokens / shape_.steps),
      .result_width = width,
      .accumulate = a.accumulate};
  if (!ops_.transformer_block()->groups_weight_gradients(tokens)) {
    for (const WeightProduct& p : all.products) single_product(stream, tokens, p, a.accumulate);
    all.num_products = 0;
  }
  ops_.transformer_block()->weight_gradients(stream, shape_.type, all);
}

void FusedBlock::single_product(Stream& stream, int64_t tokens, const WeightProduct& p, bool accumulate) const {
  ops_.matmul().matmul(stream, {.a = p.dy,
                                .b = p.x,
                                .c = p.dw,
                                .m = p.out,
                                .n = p.in,
                                .k = tokens,
                                .transpose_a = true,
                                .type = shape_.type,
                                .epilogue = MatMulEpilogue::sum_rows_of_a,
                                .dbias = p.dbias,
                                .accumulate = accumulate,
                                .accumulate_dbias = accumulate});
}

}  // namespace amdahl

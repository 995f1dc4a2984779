// The attention branch of a transformer block.
#include "model/transformer_block.h"

namespace amdahl {

const void* TransformerBlock::attention_branch(Stream& stream, int64_t batch, const BlockSaved& saved,
                                               const BlockGradients& g) const {
  const TokenPart tokens = input_tokens(batch);
  const void* const x = tokens.gather(stream, saved.norm1, g.gathered, width_, type());
  linear(stream, tokens.all(), x, width_, kQkvWeight, qkv_width_, saved.qkv);
  if (saved.heads || rotation_)
    ops().attention().heads_forward(stream, {.shape = attention_shape(batch, saved),
                                             .qkv = saved.qkv,
                                             .q_weight = value(kQNormWeight),
                                             .k_weight = value(kKNormWeight),
                                             .kept = saved.heads,
                                             .rotation = rotation_ ? rotation_->as<float>() : nullptr,
                                             .epsilon = static_cast<float>(spec().epsilon)});
  ops().attention().attention_forward(stream,
                                      {attention_shape(batch, saved), saved.qkv, saved.attention, saved.log_sums});
  return joined(stream, tokens, saved.attention, attended_, kOutWeight, g.branch);
}

void TransformerBlock::heads_gradients(Stream& stream, int64_t batch, const BlockSaved& saved, const BlockGradients& g,
                                       bool accumulate) const {
  const int64_t width = widths_.head_dim;
  ops().attention().heads_backward(stream, {.shape = attention_shape(batch, saved),
                                            .d_qkv = g.wide,
                                            .q_weight = value(kQNormWeight),
                                            .k_weight = value(kKNormWeight),
                                            .kept = saved.heads,
                                            .rotation = rotation_ ? rotation_->as<float>() : nullptr,
                                            .epsilon = static_cast<float>(spec().epsilon),
                                            .dq_weight = g.heads ? g.heads : gradient(kQNormWeight),
                                            .dk_weight = g.heads ? g.heads + width : gradient(kKNormWeight),
                                            .accumulate = accumulate && !g.heads});
  if (g.heads)
    finish_gradients(stream, *context().tensor, g.heads,
                     {static_cast<size_t>(index_[kQNormWeight]), static_cast<size_t>(index_[kKNormWeight])}, width,
                     accumulate);
}

void TransformerBlock::attention_gradients(Stream& stream, int64_t batch, const BlockSaved& saved,
                                           const BlockGradients& g, const void* own, bool accumulate) const {
  const TokenPart tokens = input_tokens(batch);
  const int64_t n = tokens.all();
  const void* const d_out = tokens.gather(stream, own, g.branch, width_, type());
  weight_gradient(stream, n, d_out, width_, saved.attention, attended_, kOutWeight, accumulate);
  input_gradient(stream, n, d_out, width_, kOutWeight, attended_, g.narrow);
  ops().attention().attention_backward(
      stream, {attention_shape(batch, saved), saved.qkv, saved.attention, saved.log_sums, g.narrow, g.wide});
  if (saved.heads || rotation_) heads_gradients(stream, batch, saved, g, accumulate);
  const void* const x = tokens.gather(stream, saved.norm1, g.gathered, width_, type());
  weight_gradient(stream, n, g.wide, qkv_width_, x, width_, kQkvWeight, accumulate);
  input_gradient(stream, n, g.wide, qkv_width_, kQkvWeight, width_, g.narrow);
  sum_branch(stream, tokens, g.narrow);
}

}  // namespace amdahl

// The two dense layers of a transformer block.
#include "model/transformer_block.h"

namespace amdahl {

void TransformerBlock::activate(Stream& stream, const TokenPart& tokens, const BlockSaved& saved,
                                const BlockGradients& g) const {
  const int64_t n = tokens.all();
  const void* const x = tokens.gather(stream, up_input(saved), g.gathered, width_, type());
  if (fuses_activation()) return linear(stream, n, x, width_, kUpWeight, up_, saved.activated, saved.up);
  linear(stream, n, x, width_, kUpWeight, up_, saved.up);
  ops().matmul().activate(stream, {activation(), is_gated(), saved.up, saved.activated, n, hidden_, type()});
}

const void* TransformerBlock::mlp_branch(Stream& stream, const TokenPart& tokens, const BlockSaved& saved,
                                         const BlockGradients& g) const {
  activate(stream, tokens, saved, g);
  return joined(stream, tokens, saved.activated, hidden_, kDownWeight, g.branch);
}

// Where the activation has a pass of its own, its values give way to their gradients.
void TransformerBlock::mlp_gradients(Stream& stream, const TokenPart& tokens, const BlockSaved& saved,
                                     const BlockGradients& g, const void* own, bool accumulate) const {
  const int64_t n = tokens.all();
  const bool fused = fuses_activation();
  const void* const d_out = tokens.gather(stream, own, g.branch, width_, type());
  weight_gradient(stream, n, d_out, width_, saved.activated, hidden_, kDownWeight, accumulate);
  if (fused) {
    input_gradient(stream, n, d_out, width_, kDownWeight, hidden_, g.wide, saved.up, gradient(kUpBias), accumulate);
  } else {
    input_gradient(stream, n, d_out, width_, kDownWeight, hidden_, saved.activated);
    ops().matmul().activate_gradient(
        stream, {activation(), is_gated(), saved.up, saved.activated, saved.up, n, hidden_, type()});
  }
  const void* const d_up = fused ? g.wide : saved.up;
  const void* const x = tokens.gather(stream, up_input(saved), g.gathered, width_, type());
  weight_gradient(stream, n, d_up, up_, x, width_, kUpWeight, accumulate, fused);
  input_gradient(stream, n, d_up, up_, kUpWeight, width_, g.narrow);
  sum_branch(stream, tokens, g.narrow);
}

}  // namespace amdahl

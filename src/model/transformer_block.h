// One block of a transformer: attention and two dense layers with an activation between them, each with a residual
// connection and a normalisation before it (GPT-2, Llama) or after it (BERT). What the parts are, the spec says: which
// normalisation, how many heads of keys and values, whether queries and keys are normalised and rotated, whether the
// dense layers are gated, and which have biases.
//
// The residual stream and its gradient are f32; GEMMs and attention read and write the compute type.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "model/block_memory.h"
#include "model/typed_layer.h"
#include "plan/block_kind.h"

namespace amdahl {

class TransformerBlock final : public TypedLayer {
 public:
  explicit TransformerBlock(const LayerContext& context);
  LayerState make_state(int64_t max_rows) const override;

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override;
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override;

 private:
  // transformer_block.cpp: the order of the parts, and their memory.
  BlockGradients take_gradients(ScratchParts& parts, const TokenPart& tokens) const;
  /// What backward reads: kept per micro-batch, or in the shared scratch where it is computed again.
  BlockSaved take_saved(ScratchParts& kept, ScratchParts& shared, const TokenPart& tokens) const;
  std::pair<BlockSaved, BlockGradients> memory_of(const LayerState& state, const LayerRows& rows) const;
  /// What forward did not keep.
  void compute_again(Stream& stream, int64_t batch, const float* input, const BlockSaved& saved,
                     const BlockGradients& g) const;
  void compute_post_norm(Stream& stream, int64_t batch, const float* input, LayerState& state, const BlockSaved& saved,
                         const BlockGradients& g) const;
  void post_norm_gradients(Stream& stream, int64_t batch, const LayerState& state, const BlockSaved& saved,
                           const BlockGradients& g, float* dx, bool accumulate) const;
  const void* up_input(const BlockSaved& saved) const {
    return spec().post_norm && computes_in_f32() ? saved.residual : saved.norm2;
  }
  void take_input(Stream& stream, int64_t n, const float* input, const BlockSaved& saved) const;

  // block_attention.cpp
  AttentionShape attention_shape(int64_t batch, const BlockSaved& saved) const {
    return {batch, steps_, heads_, widths_.head_dim, spec().causal, type(), kv_heads_, spec().window, saved.starts};
  }
  /// The branch's output, of this rank's tokens, in g.branch.
  const void* attention_branch(Stream& stream, int64_t batch, const BlockSaved& saved, const BlockGradients& g) const;
  /// From the gradient of the branch's output, of this rank's tokens, to g.narrow, that of its input.
  void attention_gradients(Stream& stream, int64_t batch, const BlockSaved& saved, const BlockGradients& g,
                           const void* own, bool accumulate) const;
  void heads_gradients(Stream& stream, int64_t batch, const BlockSaved& saved, const BlockGradients& g,
                       bool accumulate) const;

  // block_mlp.cpp
  bool is_gated() const { return widths_.is_gated; }
  HiddenActivation activation() const {
    if (spec().mlp == MlpKind::swiglu) return HiddenActivation::silu;
    return spec().exact_gelu ? HiddenActivation::exact_gelu : HiddenActivation::gelu;
  }
  /// Whether the activation is a part of the GEMMs before it, forward and backward.
  bool fuses_activation() const { return !is_gated() && has(kUpBias) && !spec().exact_gelu; }
  /// The first dense layer and the activation.
  void activate(Stream& stream, const TokenPart& tokens, const BlockSaved& saved, const BlockGradients& g) const;
  const void* mlp_branch(Stream& stream, const TokenPart& tokens, const BlockSaved& saved,
                         const BlockGradients& g) const;
  void mlp_gradients(Stream& stream, const TokenPart& tokens, const BlockSaved& saved, const BlockGradients& g,
                     const void* own, bool accumulate) const;

  // block_math.cpp: the operations that parts have in common.
  bool has(BlockParameter parameter) const { return index_[parameter] >= 0; }
  const ParameterView& view(BlockParameter parameter) const { return tensor(static_cast<size_t>(index_[parameter])); }
  /// Null for a parameter that the spec does not have.
  float* value(BlockParameter parameter) const { return has(parameter) ? view(parameter).value : nullptr; }
  float* gradient(BlockParameter parameter) const { return has(parameter) ? view(parameter).gradient : nullptr; }
  const void* typed_value(BlockParameter parameter) const {
    return has(parameter) ? typed(static_cast<size_t>(index_[parameter])) : nullptr;
  }
  static BlockParameter bias_of(BlockParameter weight) { return static_cast<BlockParameter>(weight + 1); }
  bool is_centred() const { return spec().norm == NormKind::layer; }
  /// The parameters of the normalisations of the residual stream.
  std::vector<size_t> norm_parameters() const;

  const void* typed_or(const void* converted, const float* original) const {
    return computes_in_f32() ? original : converted;
  }
  void convert(Stream& stream, const float* from, void* to, int64_t count) const {
    if (!computes_in_f32() && count > 0) ops().matmul().convert(stream, from, to, type(), count);
  }
  void add(Stream& stream, const ResidualAdd& sum) const {
    if (sum.count > 0) ops().norm().residual_add(stream, sum);
  }
  void normalise(Stream& stream, int64_t n, const float* x, const void* delta, float* sum, BlockParameter weight,
                 void* y, DType y_type, float* mean, float* rstd) const;
  void norm_gradient(Stream& stream, int64_t n, const void* dy, DType dy_type, const float* x, BlockParameter weight,
                     const float* mean, const float* rstd, const float* d_residual, const BlockGradients& g, float* dx,
                     void* dx_typed, bool accumulate) const;
  /// y = x W^T + b; with `before_gelu` that is there, and y = gelu of it.
  void linear(Stream& stream, int64_t n, const void* x, int64_t in, BlockParameter weight, int64_t out, void* y,
              void* before_gelu = nullptr, bool adds_bias = true) const;
  /// The second layer of a pair whose hidden values are divided: the ranks' parts are summed, one adds the bias.
  /// Returns this rank's tokens.
  const void* joined(Stream& stream, const TokenPart& tokens, const void* x, int64_t in, BlockParameter weight,
                     void* y) const;
  void sum_branch(Stream& stream, const TokenPart& tokens, void* data) const;
  /// Gradients of weight and bias; `bias_done`: the bias gradient was computed with dy.
  void weight_gradient(Stream& stream, int64_t n, const void* dy, int64_t out, const void* x, int64_t in,
                       BlockParameter weight, bool accumulate, bool bias_done = false) const;
  void input_gradient(Stream& stream, int64_t n, const void* dy, int64_t out, BlockParameter weight, int64_t in,
                      void* dx, void* before_gelu = nullptr, float* dbias = nullptr, bool accumulate = false) const;

  int64_t width_, steps_;
  BlockWidths widths_;                                             // of the whole block
  int64_t heads_, kv_heads_, attended_, qkv_width_, hidden_, up_;  // held here
  std::array<int, kNumBlockParameters> index_{};                   // among the layer's tensors; -1: none
  std::unique_ptr<Buffer> rotation_;                               // rotary_table; null: no rotary positions
};

}  // namespace amdahl

// One block of a transformer: attention and two dense layers with GELU between them, each with a residual connection
// and a normalisation before it (GPT-2) or after it (BERT).
//
// The residual stream and its gradient are f32; GEMMs and attention read and write the compute type.
#include "model/block_memory.h"
#include "model/typed_layer.h"

namespace amdahl {
namespace {

class TransformerBlock final : public TypedLayer {
 public:
  explicit TransformerBlock(const LayerContext& context)
      : TypedLayer(context),
        width_(context.spec.units),
        steps_(context.input[0]),
        attended_(width_ / place().size),
        hidden_(4 * attended_) {}

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    const TokenPart tokens = input_tokens(max_rows);
    ScratchParts kept(nullptr), shared(nullptr);
    take_gradients(shared, tokens);
    take_saved(kept, shared, tokens);
    if (kept.bytes() > 0) state.saved.push_back(context().device.allocate(static_cast<size_t>(kept.bytes())));
    context().scratch.reserve(shared.bytes());
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    convert_parameters(stream);
    const TokenPart tokens = input_tokens(rows.rows);
    const int64_t n = tokens.own();
    const auto [saved, g] = memory_of(state, tokens);
    if (spec().post_norm) return compute_post_norm(stream, rows.rows, input, state, saved, g);
    normalise(stream, n, input, nullptr, nullptr, kNorm1Weight, saved.norm1, type(), saved.mean1, saved.rstd1);
    const void* branch = attention_branch(stream, rows.rows, saved, g);
    normalise(stream, n, input, branch, saved.middle, kNorm2Weight, saved.norm2, type(), saved.mean2, saved.rstd2);
    branch = mlp_branch(stream, tokens, saved, g);
    add(stream, {saved.middle, branch, state.out(), n * width_, type()});
  }

  /// What forward did not keep.
  void compute_again(Stream& stream, int64_t batch, const float* input, const BlockSaved& saved,
                     const BlockGradients& g) const {
    const TokenPart tokens = input_tokens(batch);
    const int64_t n = tokens.own();
    if (context().recompute == Recompute::none) return;
    const bool attention_kept = context().recompute == Recompute::selective;
    if (spec().post_norm) {
      if (!attention_kept) {
        take_input(stream, n, input, saved);
        const void* branch = attention_branch(stream, batch, saved, g);
        normalise(stream, n, input, branch, saved.middle, kNorm1Weight, saved.residual, DType::f32, saved.mean1,
                  saved.rstd1);
        convert(stream, saved.residual, saved.norm2, n * width_);
        branch = mlp_branch(stream, tokens, saved, g);
        normalise(stream, n, saved.residual, branch, saved.last, kNorm2Weight, nullptr, DType::f32, saved.mean2,
                  saved.rstd2);
        return;
      }
      take_input(stream, n, input, saved);
      normalise(stream, n, saved.middle, nullptr, nullptr, kNorm1Weight, saved.residual, DType::f32, saved.mean1,
                saved.rstd1);
      convert(stream, saved.residual, saved.norm2, n * width_);
    } else {
      normalise(stream, n, input, nullptr, nullptr, kNorm1Weight, saved.norm1, type(), saved.mean1, saved.rstd1);
      const void* const branch = attention_kept ? nullptr : attention_branch(stream, batch, saved, g);
      normalise(stream, n, attention_kept ? saved.middle : input, branch, attention_kept ? nullptr : saved.middle,
                kNorm2Weight, saved.norm2, type(), saved.mean2, saved.rstd2);
    }
    const void* const x = tokens.gather(stream, up_input(saved), g.gathered, width_, type());
    linear(stream, tokens.all(), x, width_, kUpWeight, hidden_, saved.gelu, saved.up);
  }

  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const TokenPart tokens = input_tokens(rows.rows);
    const int64_t n = tokens.own();
    const auto [saved, g] = memory_of(state, tokens);
    compute_again(stream, rows.rows, input, saved, g);
    float* dx = d_input ? d_input : g.unused;
    void* const typed = tokens.mine(g.branch, width_, type());  // of this rank's tokens, as is `narrow`
    void* const narrow = tokens.mine(g.narrow, width_, type());
    if (spec().post_norm) {
      post_norm_gradients(stream, rows.rows, state, saved, g, dx, accumulate);
    } else {
      convert(stream, state.d_out(), typed, n * width_);
      mlp_gradients(stream, tokens, saved, g, typed_or(typed, state.d_out()), accumulate);
      norm_gradient(stream, n, narrow, saved.middle, kNorm2Weight, saved.mean2, saved.rstd2, state.d_out(), g, g.middle,
                    typed, accumulate);
      attention_gradients(stream, rows.rows, saved, g, typed_or(typed, g.middle), accumulate);
      norm_gradient(stream, n, narrow, input, kNorm1Weight, saved.mean1, saved.rstd1, g.middle, g, dx, nullptr,
                    accumulate);
    }
    if (g.sums)
      finish_gradients(stream, g.sums, {kNorm1Weight, kNorm1Bias, kNorm2Weight, kNorm2Bias}, width_, accumulate);
  }

 private:
  BlockGradients take_gradients(ScratchParts& parts, const TokenPart& tokens) const {
    BlockGradients g{};
    g.branch = parts.take(tokens.gathered() * width_, type());
    g.narrow = parts.take(tokens.gathered() * width_, type());
    g.wide = parts.take(tokens.all() * hidden_, type());
    g.middle = parts.floats(tokens.each() * width_);
    g.unused = parts.floats(tokens.each() * width_);
    if (!tokens.is_divided()) return g;
    g.gathered = parts.take(tokens.gathered() * width_, type());
    g.sums = parts.floats(4 * width_);
    return g;
  }

  /// What backward reads: kept per micro-batch, or in the shared scratch where it is computed again.
  BlockSaved take_saved(ScratchParts& kept, ScratchParts& shared, const TokenPart& tokens) const {
    const int64_t n = tokens.each(), all = tokens.all();
    const Recompute recompute = context().recompute;
    ScratchParts& attention = recompute == Recompute::block ? shared : kept;
    ScratchParts& others = recompute == Recompute::none ? kept : shared;
    BlockSaved saved{};
    saved.qkv = attention.take(all * 3 * attended_, type());
    saved.attention = attention.take(all * attended_, type());
    saved.middle = attention.floats(n * width_);
    saved.log_sums = attention.floats(all * heads());
    if (spec().post_norm) saved.last = attention.floats(n * width_), saved.residual = others.floats(n * width_);
    saved.mean2 = attention.floats(n), saved.rstd2 = attention.floats(n);
    saved.mean1 = others.floats(n), saved.rstd1 = others.floats(n);
    saved.norm1 = others.take(n * width_, type());
    saved.norm2 = others.take(n * width_, type());
    saved.up = others.take(all * hidden_, type());
    saved.gelu = others.take(all * hidden_, type());
    return saved;
  }
  std::pair<BlockSaved, BlockGradients> memory_of(const LayerState& state, const TokenPart& tokens) const {
    ScratchParts kept(state.saved.empty() ? nullptr : state.saved[0]->as<std::byte>());
    ScratchParts shared(context().scratch.data());
    const BlockGradients gradients = take_gradients(shared, tokens);
    return {take_saved(kept, shared, tokens), gradients};
  }
  const void* up_input(const BlockSaved& saved) const {
    return spec().post_norm && computes_in_f32() ? saved.residual : saved.norm2;
  }
  void take_input(Stream& stream, int64_t n, const float* input, const BlockSaved& saved) const {
    if (computes_in_f32())
      context().device.copy_within(stream, saved.norm1, input, static_cast<size_t>(n * width_) * sizeof(float));
    else
      convert(stream, input, saved.norm1, n * width_);
  }

  const void* typed_or(const void* converted, const float* original) const {
    return computes_in_f32() ? original : converted;
  }
  void convert(Stream& stream, const float* from, void* to, int64_t count) const {
    if (!computes_in_f32() && count > 0) ops().matmul().convert(stream, from, to, type(), count);
  }
  int64_t heads() const { return spec().heads / place().size; }
  AttentionShape attention_shape(int64_t batch) const {
    return {batch, steps_, heads(), width_ / spec().heads, spec().causal, type()};
  }

  void add(Stream& stream, const ResidualAdd& sum) const {
    if (sum.count > 0) ops().norm().residual_add(stream, sum);
  }
  void normalise(Stream& stream, int64_t n, const float* x, const void* delta, float* sum, size_t weight, void* y,
                 DType y_type, float* mean, float* rstd) const {
    if (n == 0) return;  // a rank without tokens
    ops().norm().layer_norm_forward(stream, {.x = x,
                                             .delta = delta,
                                             .sum = sum,
                                             .gamma = tensor(weight).value,
                                             .beta = tensor(weight + 1).value,
                                             .y = y,
                                             .mean = mean,
                                             .rstd = rstd,
                                             .rows = n,
                                             .width = width_,
                                             .type = type(),
                                             .y_type = y_type});
  }
  void norm_gradient(Stream& stream, int64_t n, const void* dy, const float* x, size_t weight, const float* mean,
                     const float* rstd, const float* d_residual, const BlockGradients& g, float* dx, void* dx_typed,
                     bool accumulate, DType dy_type) const {
    float* const sums = g.sums ? g.sums + (weight == kNorm1Weight ? 0 : 2 * width_) : nullptr;
    if (n == 0) return context().device.fill_zero(stream, sums, static_cast<size_t>(2 * width_) * sizeof(float));
    ops().norm().layer_norm_backward(stream, {.dy = dy,
                                              .x = x,
                                              .gamma = tensor(weight).value,
                                              .mean = mean,
                                              .rstd = rstd,
                                              .d_residual = d_residual,
                                              .dx = dx,
                                              .dx_typed = computes_in_f32() ? nullptr : dx_typed,
                                              .dgamma = sums ? sums : tensor(weight).gradient,
                                              .dbeta = sums ? sums + width_ : tensor(weight + 1).gradient,
                                              .rows = n,
                                              .width = width_,
                                              .type = type(),
                                              .dy_type = dy_type,
                                              .accumulate = accumulate && !sums});
  }
  void norm_gradient(Stream& stream, int64_t n, const void* dy, const float* x, size_t weight, const float* mean,
                     const float* rstd, const float* d_residual, const BlockGradients& g, float* dx, void* dx_typed,
                     bool accumulate) const {
    norm_gradient(stream, n, dy, x, weight, mean, rstd, d_residual, g, dx, dx_typed, accumulate, type());
  }

  void linear(Stream& stream, int64_t n, const void* x, int64_t in, size_t weight, int64_t out, void* y,
              void* before_gelu = nullptr, bool adds_bias = true) const {
    ops().matmul().matmul(stream, {.a = x,
                                   .b = typed(weight),
                                   .c = y,
                                   .m = n,
                                   .n = out,
                                   .k = in,
                                   .transpose_b = true,
                                   .type = type(),
                                   .c_type = type(),
                                   .epilogue = before_gelu ? MatMulEpilogue::bias_gelu
                                               : adds_bias ? MatMulEpilogue::bias
                                                           : MatMulEpilogue::none,
                                   .bias = adds_bias ? typed(weight + 1) : nullptr,
                                   .aux = before_gelu});
  }
  /// The second layer of a pair whose hidden values are divided: the ranks' parts are summed, one adds the bias.
  /// Returns this rank's tokens.
  const void* joined(Stream& stream, const TokenPart& tokens, const void* x, int64_t in, size_t weight, void* y) const {
    linear(stream, tokens.all(), x, in, weight, width_, y, nullptr, place().rank == 0);
    sum_branch(stream, tokens, y);
    return tokens.mine(y, width_, type());
  }
  void sum_branch(Stream& stream, const TokenPart& tokens, void* data) const {
    if (tokens.is_divided()) return tokens.sum(stream, data, width_, type());
    sum_parts(stream, data, tokens.all() * width_, type());
  }
  /// Gradients of weight and bias; `bias_done`: the bias gradient was computed with dy.
  void weight_gradient(Stream& stream, int64_t n, const void* dy, int64_t out, const void* x, int64_t in, size_t weight,
                       bool accumulate, bool bias_done = false) const {
    ops().matmul().matmul(stream, {.a = dy,
                                   .b = x,
                                   .c = tensor(weight).gradient,
                                   .m = out,
                                   .n = in,
                                   .k = n,
                                   .transpose_a = true,
                                   .type = type(),
                                   .epilogue = bias_done ? MatMulEpilogue::none : MatMulEpilogue::sum_rows_of_a,
                                   .dbias = bias_done ? nullptr : tensor(weight + 1).gradient,
                                   .accumulate = accumulate,
                                   .accumulate_dbias = accumulate});
  }
  void input_gradient(Stream& stream, int64_t n, const void* dy, int64_t out, size_t weight, int64_t in, void* dx,
                      void* before_gelu = nullptr, float* dbias = nullptr, bool accumulate = false) const {
    ops().matmul().matmul(stream, {.a = dy,
                                   .b = typed(weight),
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

  /// Both return the branch's output, of this rank's tokens, in g.branch.
  const void* attention_branch(Stream& stream, int64_t batch, const BlockSaved& saved, const BlockGradients& g) const {
    const TokenPart tokens = input_tokens(batch);
    const void* const x = tokens.gather(stream, saved.norm1, g.gathered, width_, type());
    linear(stream, tokens.all(), x, width_, kQkvWeight, 3 * attended_, saved.qkv);
    ops().attention().attention_forward(stream, {attention_shape(batch), saved.qkv, saved.attention, saved.log_sums});
    return joined(stream, tokens, saved.attention, attended_, kOutWeight, g.branch);
  }
  const void* mlp_branch(Stream& stream, const TokenPart& tokens, const BlockSaved& saved,
                         const BlockGradients& g) const {
    const void* const x = tokens.gather(stream, up_input(saved), g.gathered, width_, type());
    linear(stream, tokens.all(), x, width_, kUpWeight, hidden_, saved.gelu, saved.up);
    return joined(stream, tokens, saved.gelu, hidden_, kDownWeight, g.branch);
  }
  /// From the gradient of the branch's output, of this rank's tokens, to g.narrow, that of its input.
  void mlp_gradients(Stream& stream, const TokenPart& tokens, const BlockSaved& saved, const BlockGradients& g,
                     const void* own, bool accumulate) const {
    const int64_t n = tokens.all();
    const void* const d_out = tokens.gather(stream, own, g.branch, width_, type());
    weight_gradient(stream, n, d_out, width_, saved.gelu, hidden_, kDownWeight, accumulate);
    input_gradient(stream, n, d_out, width_, kDownWeight, hidden_, g.wide, saved.up, tensor(kUpBias).gradient,
                   accumulate);
    const void* const x = tokens.gather(stream, up_input(saved), g.gathered, width_, type());
    weight_gradient(stream, n, g.wide, hidden_, x, width_, kUpWeight, accumulate, true);
    input_gradient(stream, n, g.wide, hidden_, kUpWeight, width_, g.narrow);
    sum_branch(stream, tokens, g.narrow);
  }
  void attention_gradients(Stream& stream, int64_t batch, const BlockSaved& saved, const BlockGradients& g,
                           const void* own, bool accumulate) const {
    const TokenPart tokens = input_tokens(batch);
    const int64_t n = tokens.all();
    const void* const d_out = tokens.gather(stream, own, g.branch, width_, type());
    weight_gradient(stream, n, d_out, width_, saved.attention, attended_, kOutWeight, accumulate);
    input_gradient(stream, n, d_out, width_, kOutWeight, attended_, g.narrow);
    ops().attention().attention_backward(
        stream, {attention_shape(batch), saved.qkv, saved.attention, saved.log_sums, g.narrow, g.wide});
    const void* const x = tokens.gather(stream, saved.norm1, g.gathered, width_, type());
    weight_gradient(stream, n, g.wide, 3 * attended_, x, width_, kQkvWeight, accumulate);
    input_gradient(stream, n, g.wide, 3 * attended_, kQkvWeight, width_, g.narrow);
    sum_branch(stream, tokens, g.narrow);
  }

  void compute_post_norm(Stream& stream, int64_t batch, const float* input, LayerState& state, const BlockSaved& saved,
                         const BlockGradients& g) const {
    const TokenPart tokens = input_tokens(batch);
    const int64_t n = tokens.own();
    take_input(stream, n, input, saved);
    const void* branch = attention_branch(stream, batch, saved, g);
    normalise(stream, n, input, branch, saved.middle, kNorm1Weight, saved.residual, DType::f32, saved.mean1,
              saved.rstd1);
    convert(stream, saved.residual, saved.norm2, n * width_);
    branch = mlp_branch(stream, tokens, saved, g);
    normalise(stream, n, saved.residual, branch, saved.last, kNorm2Weight, state.out(), DType::f32, saved.mean2,
              saved.rstd2);
  }
  void post_norm_gradients(Stream& stream, int64_t batch, const LayerState& state, const BlockSaved& saved,
                           const BlockGradients& g, float* dx, bool accumulate) const {
    const TokenPart tokens = input_tokens(batch);
    const int64_t n = tokens.own();
    void* const typed = tokens.mine(g.branch, width_, type());
    const void* const narrow = tokens.mine(g.narrow, width_, type());
    norm_gradient(stream, n, state.d_out(), saved.last, kNorm2Weight, saved.mean2, saved.rstd2, nullptr, g, g.middle,
                  typed, accumulate, DType::f32);
    mlp_gradients(stream, tokens, saved, g, typed_or(typed, g.middle), accumulate);
    add(stream, {g.middle, narrow, g.middle, n * width_, type()});
    norm_gradient(stream, n, g.middle, saved.middle, kNorm1Weight, saved.mean1, saved.rstd1, nullptr, g, g.unused,
                  typed, accumulate, DType::f32);
    attention_gradients(stream, batch, saved, g, typed_or(typed, g.unused), accumulate);
    add(stream, {g.unused, narrow, dx, n * width_, type()});
  }

  int64_t width_, steps_;
  int64_t attended_, hidden_;  // width of the heads, and hidden units, that are held here
};

}  // namespace

std::unique_ptr<Layer> make_transformer_block(const LayerContext& context) {
  return std::make_unique<TransformerBlock>(context);
}

}  // namespace amdahl

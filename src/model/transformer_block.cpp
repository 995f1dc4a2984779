#include "model/transformer_block.h"

#include <algorithm>

#include "plan/rotary.h"

namespace amdahl {
namespace {

constexpr double kTableSeconds = 60;  // most for the copy of a table to the device

}  // namespace

TransformerBlock::TransformerBlock(const LayerContext& context)
    : TypedLayer(context),
      width_(context.spec.units),
      steps_(context.input[0]),
      widths_(block_widths(context.spec)),
      heads_(widths_.heads / place().size),
      kv_heads_(widths_.kv_heads / place().size),
      attended_(widths_.attended() / place().size),
      qkv_width_(widths_.qkv() / place().size),
      hidden_(widths_.hidden / place().size),
      up_(widths_.up() / place().size) {
  index_.fill(-1);
  const std::vector<ParameterSpec> parameters = parameters_of(context.spec, context.input);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto* const name =
        std::find(std::begin(kBlockParameterNames), std::end(kBlockParameterNames), parameters[i].name);
    index_[static_cast<size_t>(name - std::begin(kBlockParameterNames))] = static_cast<int>(i);
  }
  if (spec().rope_theta == 0) return;
  const std::shared_ptr<const std::vector<float>> table = rotary_table(spec(), steps_);
  rotation_ = buffer(static_cast<int64_t>(table->size()), DType::f32);
  const std::unique_ptr<Stream> stream = context.device.make_stream("rotary");
  context.device.copy_in(*stream, rotation_->data(), table->data(), rotation_->bytes());
  stream->synchronize(Deadline::after_seconds(kTableSeconds));
}

LayerState TransformerBlock::make_state(int64_t max_rows) const {
  LayerState state = TypedLayer::make_state(max_rows);
  const TokenPart tokens = input_tokens(max_rows);
  ScratchParts kept(nullptr), shared(nullptr);
  take_gradients(shared, tokens);
  take_saved(kept, shared, tokens);
  if (kept.bytes() > 0) state.saved.push_back(context().device.allocate(static_cast<size_t>(kept.bytes())));
  context().scratch.reserve(shared.bytes());
  return state;
}

void TransformerBlock::compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) {
  convert_parameters(stream);
  const TokenPart tokens = input_tokens(rows.rows);
  const int64_t n = tokens.own();
  const auto [saved, g] = memory_of(state, rows);
  if (spec().post_norm) return compute_post_norm(stream, rows.rows, input, state, saved, g);
  normalise(stream, n, input, nullptr, nullptr, kNorm1Weight, saved.norm1, type(), saved.mean1, saved.rstd1);
  const void* branch = attention_branch(stream, rows.rows, saved, g);
  normalise(stream, n, input, branch, saved.middle, kNorm2Weight, saved.norm2, type(), saved.mean2, saved.rstd2);
  branch = mlp_branch(stream, tokens, saved, g);
  add(stream, {saved.middle, branch, state.out(), n * width_, type()});
}

void TransformerBlock::compute_again(Stream& stream, int64_t batch, const float* input, const BlockSaved& saved,
                                     const BlockGradients& g) const {
  const TokenPart tokens = input_tokens(batch);
  const int64_t n = tokens.own();
  if (context().recompute == Recompute::none) return;
  const bool attention_kept = context().recompute == Recompute::selective;
  if (spec().post_norm) {
    take_input(stream, n, input, saved);
    if (!attention_kept) {
      const void* branch = attention_branch(stream, batch, saved, g);
      normalise(stream, n, input, branch, saved.middle, kNorm1Weight, saved.residual, DType::f32, saved.mean1,
                saved.rstd1);
      convert(stream, saved.residual, saved.norm2, n * width_);
      branch = mlp_branch(stream, tokens, saved, g);
      normalise(stream, n, saved.residual, branch, saved.last, kNorm2Weight, nullptr, DType::f32, saved.mean2,
                saved.rstd2);
      return;
    }
    normalise(stream, n, saved.middle, nullptr, nullptr, kNorm1Weight, saved.residual, DType::f32, saved.mean1,
              saved.rstd1);
    convert(stream, saved.residual, saved.norm2, n * width_);
  } else {
    normalise(stream, n, input, nullptr, nullptr, kNorm1Weight, saved.norm1, type(), saved.mean1, saved.rstd1);
    const void* const branch = attention_kept ? nullptr : attention_branch(stream, batch, saved, g);
    normalise(stream, n, attention_kept ? saved.middle : input, branch, attention_kept ? nullptr : saved.middle,
              kNorm2Weight, saved.norm2, type(), saved.mean2, saved.rstd2);
  }
  activate(stream, tokens, saved, g);
}

void TransformerBlock::gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                                 float* d_input, bool accumulate) {
  const TokenPart tokens = input_tokens(rows.rows);
  const int64_t n = tokens.own();
  const auto [saved, g] = memory_of(state, rows);
  compute_again(stream, rows.rows, input, saved, g);
  float* dx = d_input ? d_input : g.unused;
  void* const typed = tokens.mine(g.branch, width_, type());  // of this rank's tokens, as is `narrow`
  void* const narrow = tokens.mine(g.narrow, width_, type());
  if (spec().post_norm) {
    post_norm_gradients(stream, rows.rows, state, saved, g, dx, accumulate);
  } else {
    convert(stream, state.d_out(), typed, n * width_);
    mlp_gradients(stream, tokens, saved, g, typed_or(typed, state.d_out()), accumulate);
    norm_gradient(stream, n, narrow, type(), saved.middle, kNorm2Weight, saved.mean2, saved.rstd2, state.d_out(), g,
                  g.middle, typed, accumulate);
    attention_gradients(stream, rows.rows, saved, g, typed_or(typed, g.middle), accumulate);
    norm_gradient(stream, n, narrow, type(), input, kNorm1Weight, saved.mean1, saved.rstd1, g.middle, g, dx, nullptr,
                  accumulate);
  }
  if (g.sums) finish_gradients(stream, *context().tokens, g.sums, norm_parameters(), width_, accumulate);
}

BlockGradients TransformerBlock::take_gradients(ScratchParts& parts, const TokenPart& tokens) const {
  BlockGradients g{};
  g.branch = parts.take(tokens.gathered() * width_, type());
  g.narrow = parts.take(std::max(tokens.gathered() * width_, tokens.all() * attended_), type());
  g.wide = parts.take(tokens.all() * (fuses_activation() ? std::max(hidden_, qkv_width_) : qkv_width_), type());
  g.middle = parts.floats(tokens.each() * width_);
  g.unused = parts.floats(tokens.each() * width_);
  if (has(kQNormWeight) && context().tensor) g.heads = parts.floats(2 * widths_.head_dim);
  if (!tokens.is_divided()) return g;
  g.gathered = parts.take(tokens.gathered() * width_, type());
  g.sums = parts.floats(static_cast<int64_t>(norm_parameters().size()) * width_);
  return g;
}

BlockSaved TransformerBlock::take_saved(ScratchParts& kept, ScratchParts& shared, const TokenPart& tokens) const {
  const int64_t n = tokens.each(), all = tokens.all();
  const Recompute recompute = context().recompute;
  ScratchParts& attention = recompute == Recompute::block ? shared : kept;
  ScratchParts& others = recompute == Recompute::none ? kept : shared;
  BlockSaved saved{};
  saved.qkv = attention.take(all * qkv_width_, type());
  if (has(kQNormWeight)) saved.heads = attention.take(all * (heads_ + kv_heads_) * widths_.head_dim, type());
  saved.attention = attention.take(all * attended_, type());
  saved.middle = attention.floats(n * width_);
  saved.log_sums = attention.floats(all * heads_);
  if (spec().post_norm) saved.last = attention.floats(n * width_), saved.residual = others.floats(n * width_);
  if (is_centred()) saved.mean2 = attention.floats(n), saved.mean1 = others.floats(n);
  saved.rstd2 = attention.floats(n), saved.rstd1 = others.floats(n);
  saved.norm1 = others.take(n * width_, type());
  saved.norm2 = others.take(n * width_, type());
  saved.up = others.take(all * up_, type());
  saved.activated = others.take(all * hidden_, type());
  return saved;
}

std::pair<BlockSaved, BlockGradients> TransformerBlock::memory_of(const LayerState& state,
                                                                  const LayerRows& rows) const {
  ScratchParts kept(state.saved.empty() ? nullptr : state.saved[0]->as<std::byte>());
  ScratchParts shared(context().scratch.data());
  const TokenPart tokens = input_tokens(rows.rows);
  const BlockGradients gradients = take_gradients(shared, tokens);
  BlockSaved saved = take_saved(kept, shared, tokens);
  saved.starts = rows.starts;
  return {saved, gradients};
}

void TransformerBlock::take_input(Stream& stream, int64_t n, const float* input, const BlockSaved& saved) const {
  if (computes_in_f32())
    context().device.copy_within(stream, saved.norm1, input, static_cast<size_t>(n * width_) * sizeof(float));
  else
    convert(stream, input, saved.norm1, n * width_);
}

void TransformerBlock::compute_post_norm(Stream& stream, int64_t batch, const float* input, LayerState& state,
                                         const BlockSaved& saved, const BlockGradients& g) const {
  const TokenPart tokens = input_tokens(batch);
  const int64_t n = tokens.own();
  take_input(stream, n, input, saved);
  const void* branch = attention_branch(stream, batch, saved, g);
  normalise(stream, n, input, branch, saved.middle, kNorm1Weight, saved.residual, DType::f32, saved.mean1, saved.rstd1);
  convert(stream, saved.residual, saved.norm2, n * width_);
  branch = mlp_branch(stream, tokens, saved, g);
  normalise(stream, n, saved.residual, branch, saved.last, kNorm2Weight, state.out(), DType::f32, saved.mean2,
            saved.rstd2);
}

void TransformerBlock::post_norm_gradients(Stream& stream, int64_t batch, const LayerState& state,
                                           const BlockSaved& saved, const BlockGradients& g, float* dx,
                                           bool accumulate) const {
  const TokenPart tokens = input_tokens(batch);
  const int64_t n = tokens.own();
  void* const typed = tokens.mine(g.branch, width_, type());
  const void* const narrow = tokens.mine(g.narrow, width_, type());
  norm_gradient(stream, n, state.d_out(), DType::f32, saved.last, kNorm2Weight, saved.mean2, saved.rstd2, nullptr, g,
                g.middle, typed, accumulate);
  mlp_gradients(stream, tokens, saved, g, typed_or(typed, g.middle), accumulate);
  add(stream, {g.middle, narrow, g.middle, n * width_, type()});
  norm_gradient(stream, n, g.middle, DType::f32, saved.middle, kNorm1Weight, saved.mean1, saved.rstd1, nullptr, g,
                g.unused, typed, accumulate);
  attention_gradients(stream, batch, saved, g, typed_or(typed, g.unused), accumulate);
  add(stream, {g.unused, narrow, dx, n * width_, type()});
}

std::unique_ptr<Layer> make_transformer_block(const LayerContext& context) {
  return std::make_unique<TransformerBlock>(context);
}

}  // namespace amdahl

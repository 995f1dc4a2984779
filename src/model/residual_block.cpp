// Convolutional layers and residual blocks.
#include <array>
#include <optional>

#include "model/image_layer.h"

namespace amdahl {
namespace {

/// ReLU of a chain of normalised convolutions with ReLUs between them. A convolutional layer has one. A residual block
/// has two of 3 x 3, or with a bottleneck 1 x 1, 3 x 3 and 1 x 1, and adds to them its input or, where the sizes
/// differ, a normalised convolution of 1 x 1 of it.
class Convolutions final : public ImageLayer {
 public:
  explicit Convolutions(const LayerContext& context) : ImageLayer(context) {
    const LayerSpec& spec = context.spec;
    if (!is_residual())
      chain_.emplace_back(context, "norm", 0, context.input, ConvNorm::Filters{spec.units, spec.kernel, spec.stride});
    else if (spec.bottleneck > 0)
      add(context.input, {spec.bottleneck, 1, 1}), add(last().output(), {spec.bottleneck, 3, spec.stride}),
          add(last().output(), {spec.units, 1, 1});
    else
      add(context.input, {spec.units, 3, spec.stride}), add(context.output, {spec.units, 3, 1});
    if (const size_t tensors = 3 * chain_.size(); context.parameters.tensors.size() > tensors)
      shortcut_.emplace(context, "shortcut_norm", tensors, context.input,
                        ConvNorm::Filters{spec.units, 1, spec.stride});
  }

  std::vector<NamedBuffer> buffers() override {
    std::vector<NamedBuffer> all;
    for (const ConvNorm& path : chain_) path.add_buffers(all);
    if (shortcut_) shortcut_->add_buffers(all);
    return all;
  }
  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    ScratchParts saved(nullptr), scratch(nullptr);
    take_saved(saved, max_rows);
    state.saved.push_back(context().device.allocate(static_cast<size_t>(saved.bytes())));
    if (has_second_part()) state.saved.push_back(buffer(max_rows * input_width(), type()));
    take_gradients(scratch, max_rows);
    context().scratch.reserve(scratch.bytes());
    return state;
  }
  /// What passed the ReLU is that part where the second path is the input itself.
  const void* added_gradient(const LayerState& state) const override {
    if (!is_residual() || !context().images_below) return nullptr;
    return has_second_part() ? state.saved[1]->data() : state.d_output->data();
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    convert_parameters(stream);
    const Saved saved = saved_of(state, rows.rows);
    const void* x = typed_input(stream, rows, input, saved.x);
    const void* below = x;
    for (size_t i = 0; i + 1 < chain_.size(); below = saved.middles[i++])
      run(stream, rows, chain_[i], saved.norms[i], below, saved.middles[i], type(), true);
    const void* residual = !is_residual() ? nullptr : output_type() == type() ? x : input;
    if (shortcut_) {
      run(stream, rows, *shortcut_, saved.shortcut, x, state.out(), output_type(), false);
      residual = state.out();
    } else if (is_residual() && input_type() != DType::f32 && output_type() == DType::f32) {
      widen(stream, rows, input, state.out());
      residual = state.out();
    }
    run(stream, rows, last(), saved.norms[chain_.size() - 1], below, state.out(), output_type(), true, residual);
  }

  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const Saved saved = saved_of(state, rows.rows);
    const void* x = converts_input() ? saved.x : input;
    ScratchParts parts(context().scratch.data());
    const Gradients g = take_gradients(parts, rows.rows);
    size_t i = chain_.size() - 1;
    void* const outer = g.convs[i];
    norm_gradients(stream, rows, last(), saved.norms[i],
                   {true, is_residual() ? state.out() : nullptr, state.d_out(), output_type(), outer,
                    is_residual() || state.d_added ? state.d_out() : nullptr, state.d_added},
                   accumulate);
    for (; i > 0; --i) {
      void* const inner = g.convs[i - 1];
      weight_gradient(stream, rows, chain_[i], saved.middles[i - 1], g.convs[i], accumulate);
      data_gradient(stream, rows, chain_[i], g.convs[i], inner);
      norm_gradients(stream, rows, chain_[i - 1], saved.norms[i - 1], {true, nullptr, inner, type(), inner},
                     accumulate);
    }
    weight_gradient(stream, rows, chain_[0], x, g.convs[0], accumulate);
    if (shortcut_) {
      norm_gradients(stream, rows, *shortcut_, saved.shortcut, {false, nullptr, state.d_out(), output_type(), outer},
                     accumulate);
      weight_gradient(stream, rows, *shortcut_, x, outer, accumulate);
    }
    if (d_input) input_gradient(stream, rows, g, state, d_input);
  }

 private:
  static constexpr size_t kLongestChain = 3;

  bool is_residual() const { return spec().kind == LayerKind::residual_block; }
  void add(const Shape& input, const ConvNorm::Filters& filters) {
    chain_.emplace_back(context(), "norm" + std::to_string(chain_.size() + 1), 3 * chain_.size(), input, filters);
  }
  const ConvNorm& last() const { return chain_.back(); }

  struct Saved {
    void* x;  // the input in the compute type, unless it has that
    std::array<SavedNorm, kLongestChain> norms;
    SavedNorm shortcut;
    std::array<void*, kLongestChain - 1> middles;  // [rows, outputs] between the convolutions, in the compute type
  };
  Saved take_saved(ScratchParts& parts, int64_t rows) const {
    Saved saved{};
    saved.x = take_input(parts, rows);
    for (size_t i = 0; i < chain_.size(); ++i) saved.norms[i] = take_norm(parts, chain_[i], rows);
    for (size_t i = 0; i + 1 < chain_.size(); ++i) saved.middles[i] = parts.take(rows * chain_[i].outputs(), type());
    if (shortcut_) saved.shortcut = take_norm(parts, *shortcut_, rows);
    return saved;
  }
  Saved saved_of(const LayerState& state, int64_t rows) const {
    ScratchParts parts(state.saved[0]->as<std::byte>());
    return take_saved(parts, rows);
  }
  /// Temporary gradients of one backward.
  struct Gradients {
    std::array<void*, kLongestChain> convs;  // of the outputs of the convolutions, in the compute type; the memory of
                                             // the last one is then that of the shortcut
    void* x;                                 // of the input, unless that has the compute type
  };
  Gradients take_gradients(ScratchParts& parts, int64_t rows) const {
    Gradients g{};
    for (size_t i = chain_.size(); i-- > 0;) g.convs[i] = parts.take(rows * chain_[i].outputs(), type());
    g.x = take_input(parts, rows);
    return g;
  }

  /// Whether the second part of the input's gradient has memory of its own: it is not what passed the ReLU, or has
  /// another type.
  bool has_second_part() const {
    return is_residual() && context().images_below && (shortcut_ || output_type() != type());
  }

  void input_gradient(Stream& stream, const LayerRows& rows, const Gradients& g, const LayerState& state,
                      float* d_input) const {
    if (context().images_below) {
      data_gradient(stream, rows, chain_[0], g.convs[0], d_input);
      if (shortcut_)
        data_gradient(stream, rows, *shortcut_, g.convs[chain_.size() - 1], state.saved[1]->data());
      else if (has_second_part())
        ops().matmul().convert(stream, state.d_out(), state.saved[1]->data(), type(), rows.rows * input_width());
      return;
    }
    void* dx = converts_input() ? g.x : d_input;
    data_gradient(stream, rows, chain_[0], g.convs[0], dx);
    if (shortcut_) data_gradient(stream, rows, *shortcut_, g.convs[chain_.size() - 1], dx, true);
    if (converts_input()) widen(stream, rows, g.x, d_input);
    if (is_residual() && !shortcut_)
      ops().norm().residual_add(stream, {d_input, state.d_out(), d_input, rows.rows * input_width(), output_type()});
  }

  std::vector<ConvNorm> chain_;
  std::optional<ConvNorm> shortcut_;
};

}  // namespace

std::unique_ptr<Layer> make_convolutions(const LayerContext& context) {
  return std::make_unique<Convolutions>(context);
}

}  // namespace amdahl

// Layers of convolutional models: convolution with batch normalisation, max pooling, average pooling.
#include "model/image_layer.h"

namespace amdahl {
namespace {

/// ReLU of a normalised convolution.
class ConvLayer final : public ImageLayer {
 public:
  explicit ConvLayer(const LayerContext& context)
      : ImageLayer(context),
        path_(context, "norm", 0, context.input, {context.spec.units, context.spec.kernel, context.spec.stride}) {}

  std::vector<NamedBuffer> buffers() override {
    std::vector<NamedBuffer> all;
    path_.add_buffers(all);
    return all;
  }
  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    ScratchParts saved(nullptr), scratch(nullptr);
    take_saved(saved, max_rows);
    state.saved.push_back(context().device.allocate(static_cast<size_t>(saved.bytes())));
    take_gradients(scratch, max_rows);
    context().scratch.reserve(scratch.bytes());
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    convert_parameters(stream);
    const Saved saved = saved_of(state, rows.rows);
    const void* x = typed_input(stream, rows, input, saved.x);
    run(stream, rows, path_, saved.norm, x, state.out(), output_type(), true);
  }
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const Saved saved = saved_of(state, rows.rows);
    ScratchParts parts(context().scratch.data());
    const Gradients g = take_gradients(parts, rows.rows);
    norm_gradients(
        stream, rows, path_, saved.norm,
        {true, nullptr, state.d_out(), output_type(), g.conv, state.d_added ? state.d_out() : nullptr, state.d_added},
        accumulate);
    weight_gradient(stream, rows, path_, converts_input() ? saved.x : input, g.conv, accumulate);
    if (!d_input) return;
    data_gradient(stream, rows, path_, g.conv, converts_input() ? g.x : d_input);
    if (converts_input()) widen(stream, rows, g.x, d_input);
  }

 private:
  struct Saved {
    void* x;  // the input in the compute type, unless it has that
    SavedNorm norm;
  };
  Saved take_saved(ScratchParts& parts, int64_t rows) const {
    Saved saved{};
    saved.x = take_input(parts, rows);
    saved.norm = take_norm(parts, path_, rows);
    return saved;
  }
  Saved saved_of(const LayerState& state, int64_t rows) const {
    ScratchParts parts(state.saved[0]->as<std::byte>());
    return take_saved(parts, rows);
  }
  /// Temporary gradients of one backward, in the compute type.
  struct Gradients {
    void *conv, *x;
  };
  Gradients take_gradients(ScratchParts& parts, int64_t rows) const {
    void* conv = parts.take(rows * path_.outputs(), type());
    return {conv, take_input(parts, rows)};
  }

  ConvNorm path_;
};

/// The largest of the pixels of each window, by channel. Of equal ones the first counts, as in PyTorch.
class MaxPoolLayer final : public ImageLayer {
 public:
  using ImageLayer::ImageLayer;

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    state.saved.push_back(buffer(max_rows * output_width(), DType::u8));
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    ops().conv().max_pool(
        stream, {windows(rows.rows), input, state.out(), state.saved[0]->as<uint8_t>(), input_type(), output_type()});
  }
  void gradients(Stream& stream, const LayerRows& rows, const float*, const LayerState& state, float* d_input,
                 bool) override {
    if (d_input)
      ops().conv().max_pool_gradient(stream, {windows(rows.rows), state.d_out(), state.d_added,
                                              state.saved[0]->as<uint8_t>(), d_input, input_type(), output_type()});
  }

 private:
  PoolWindows windows(int64_t rows) const {
    const Shape& input = context().input;
    return {rows, input[0], input[1], input[2], spec().kernel, spec().stride};
  }
};

/// Mean over the pixels of each channel.
class AveragePoolLayer final : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    ops().conv().average_pool(stream, input, state.out(), rows.rows, pixels(), context().input[2], image_type());
  }
  void gradients(Stream& stream, const LayerRows& rows, const float*, const LayerState& state, float* d_input,
                 bool) override {
    if (d_input)
      ops().conv().average_pool_gradient(stream, state.d_out(), d_input, rows.rows, pixels(), context().input[2],
                                         image_type());
  }

 private:
  DType image_type() const { return context().images_below ? type() : DType::f32; }
  int64_t pixels() const { return context().input[0] * context().input[1]; }
};

}  // namespace

std::unique_ptr<Layer> make_conv_layer(const LayerContext& context) { return std::make_unique<ConvLayer>(context); }
std::unique_ptr<Layer> make_max_pool_layer(const LayerContext& context) {
  return std::make_unique<MaxPoolLayer>(context);
}
std::unique_ptr<Layer> make_average_pool_layer(const LayerContext& context) {
  return std::make_unique<AveragePoolLayer>(context);
}

}  // namespace amdahl

// Layers of convolutional models: convolution with batch normalisation, residual block, average pooling.
//
// Images are [rows, height, width, channels]. Between these layers they have the compute type, in which convolutions
// read and write; what comes from, or goes to, another kind of layer or another device is f32. A normalisation uses the
// mean and variance of the rows that this device has in one micro-batch, as PyTorch's DistributedDataParallel does:
// results depend on how the global batch is split, and the running statistics of ranks differ. Those of rank 0 are
// saved.
#include <optional>

#include "model/typed_layer.h"

namespace amdahl {
namespace {

/// A convolution and the batch normalisation of its output, whose running statistics it keeps between steps. The weight
/// of the convolution is the layer's tensor `first`, those of the normalisation, gain and bias, are the next two.
class ConvNorm {
 public:
  /// `norm`: the normalisation's name among the layer's parameters.
  ConvNorm(const LayerContext& context, std::string norm, size_t first, const Shape& input, int64_t kernel,
           int64_t stride)
      : norm_(std::move(norm)),
        first_(first),
        shape_{.rows = 0,
               .height = input[0],
               .width = input[1],
               .in_channels = input[2],
               .out_channels = context.spec.units,
               .kernel = kernel,
               .stride = stride,
               .padding = kernel / 2,
               .type = context.ops.compute_type()},
        running_(context.device.allocate(2 * static_cast<size_t>(channels()) * sizeof(float))) {}

  ConvShape shape(int64_t rows) const {
    ConvShape shape = shape_;
    shape.rows = rows;
    return shape;
  }
  size_t weight() const { return first_; }
  size_t gain() const { return first_ + 1; }
  size_t bias() const { return first_ + 2; }
  int64_t channels() const { return shape_.out_channels; }
  int64_t pixels() const { return shape_.out_height() * shape_.out_width(); }
  /// Values of one row.
  int64_t outputs() const { return pixels() * channels(); }
  float* running_mean() const { return running_->as<float>(); }
  float* running_variance() const { return running_->as<float>() + channels(); }
  void add_buffers(std::vector<NamedBuffer>& all) const {
    all.push_back({norm_ + ".running_mean", running_mean(), channels(), 0.0f});
    all.push_back({norm_ + ".running_variance", running_variance(), channels(), 1.0f});
  }

 private:
  std::string norm_;
  size_t first_;
  ConvShape shape_;
  std::unique_ptr<Buffer> running_;
};

/// What forward of one ConvNorm keeps for backward.
struct SavedNorm {
  void* conv;          // [rows, outputs] of the convolution, in the compute type
  float *mean, *rstd;  // [channels]
};

/// What layers made of ConvNorms share.
class ImageLayer : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

 protected:
  DType input_type() const { return context().images_below ? type() : DType::f32; }
  DType output_type() const { return context().images_above ? type() : DType::f32; }
  bool converts_input() const { return input_type() != type(); }
  /// The input in the compute type: converted to `copy`, unless it has that.
  const void* typed_input(Stream& stream, const LayerRows& rows, const float* input, void* copy) const {
    if (!converts_input()) return input;
    ops().matmul().convert(stream, input, copy, type(), rows.rows * input_width());
    return copy;
  }
  /// y = relu?(norm(conv(x)) + residual), y and residual of `y_type`.
  void run(Stream& stream, const LayerRows& rows, const ConvNorm& path, const SavedNorm& saved, const void* x, void* y,
           DType y_type, bool relu, const void* residual = nullptr) const {
    ops().conv().conv_forward(stream, {path.shape(rows.rows), x, typed(path.weight()), saved.conv});
    ops().conv().batch_norm_forward(stream, {.x = saved.conv,
                                             .residual = residual,
                                             .y = y,
                                             .gamma = tensor(path.gain()).value,
                                             .beta = tensor(path.bias()).value,
                                             .running_mean = path.running_mean(),
                                             .running_variance = path.running_variance(),
                                             .mean = saved.mean,
                                             .rstd = saved.rstd,
                                             .count = rows.rows * path.pixels(),
                                             .channels = path.channels(),
                                             .relu = relu,
                                             .training = rows.training,
                                             .type = type(),
                                             .y_type = y_type});
  }
  struct NormGradients {
    bool relu;
    const void* y;  // null: no residual was added, or no ReLU
    const void* dy;
    DType y_type;
    void* d_conv;            // of the convolution's output, in the compute type
    void* passed = nullptr;  // of `y_type`: what passes the ReLU
    const void* dy_added = nullptr;
  };
  void norm_gradients(Stream& stream, const LayerRows& rows, const ConvNorm& path, const SavedNorm& saved,
                      const NormGradients& g, bool accumulate) const {
    ops().conv().batch_norm_backward(stream, {.x = saved.conv,
                                              .y = g.y,
                                              .dy = g.dy,
                                              .gamma = tensor(path.gain()).value,
                                              .mean = saved.mean,
                                              .rstd = saved.rstd,
                                              .dx = g.d_conv,
                                              .passed = g.passed,
                                              .dy_added = g.dy_added,
                                              .beta = g.relu && !g.y ? tensor(path.bias()).value : nullptr,
                                              .dgamma = tensor(path.gain()).gradient,
                                              .dbeta = tensor(path.bias()).gradient,
                                              .count = rows.rows * path.pixels(),
                                              .channels = path.channels(),
                                              .relu = g.relu,
                                              .accumulate = accumulate,
                                              .type = type(),
                                              .y_type = g.y_type});
  }
  void weight_gradient(Stream& stream, const LayerRows& rows, const ConvNorm& path, const void* x, const void* d_conv,
                       bool accumulate) const {
    ops().conv().conv_backward_filter(stream,
                                      {path.shape(rows.rows), x, d_conv, tensor(path.weight()).gradient, accumulate});
  }
  void data_gradient(Stream& stream, const LayerRows& rows, const ConvNorm& path, const void* d_conv, void* dx,
                     bool accumulate = false) const {
    ops().conv().conv_backward_data(stream, {path.shape(rows.rows), d_conv, typed(path.weight()), dx, accumulate});
  }
  /// `to`, f32, becomes values of the compute type.
  void widen(Stream& stream, const LayerRows& rows, const void* from, float* to) const {
    ops().sequence().add_positions(stream, {from, nullptr, to, rows.rows, 1, input_width(), type()});
  }
  /// Memory for the input in the compute type; none where it has that.
  void* take_input(ScratchParts& parts, int64_t rows) const {
    return converts_input() ? parts.take(rows * input_width(), type()) : nullptr;
  }
  SavedNorm take_norm(ScratchParts& parts, const ConvNorm& path, int64_t rows) const {
    SavedNorm saved{};
    saved.conv = parts.take(rows * path.outputs(), type());
    saved.mean = parts.floats(path.channels());
    saved.rstd = parts.floats(path.channels());
    return saved;
  }
};

/// ReLU of a normalised convolution.
class ConvLayer final : public ImageLayer {
 public:
  explicit ConvLayer(const LayerContext& context)
      : ImageLayer(context), path_(context, "norm", 0, context.input, context.spec.kernel, context.spec.stride) {}

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

/// ReLU of the sum of two paths: two normalised convolutions of 3 x 3 with a ReLU between them, and the input itself
/// or, where the sizes differ, a normalised convolution of 1 x 1 of it.
class ResidualBlock final : public ImageLayer {
 public:
  explicit ResidualBlock(const LayerContext& context)
      : ImageLayer(context),
        first_(context, "norm1", 0, context.input, 3, context.spec.stride),
        second_(context, "norm2", 3, context.output, 3, 1) {
    if (context.parameters.tensors.size() > 6)
      shortcut_.emplace(context, "shortcut_norm", 6, context.input, 1, context.spec.stride);
  }

  std::vector<NamedBuffer> buffers() override {
    std::vector<NamedBuffer> all;
    first_.add_buffers(all);
    second_.add_buffers(all);
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
    if (!context().images_below) return nullptr;
    return has_second_part() ? state.saved[1]->data() : state.d_output->data();
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    convert_parameters(stream);
    const Saved saved = saved_of(state, rows.rows);
    const void* x = typed_input(stream, rows, input, saved.x);
    run(stream, rows, first_, saved.first, x, saved.middle, type(), true);
    const void* residual = output_type() == type() ? x : input;
    if (shortcut_) {
      run(stream, rows, *shortcut_, saved.shortcut, x, state.out(), output_type(), false);
      residual = state.out();
    } else if (input_type() != DType::f32 && output_type() == DType::f32) {
      widen(stream, rows, input, state.out());
      residual = state.out();
    }
    run(stream, rows, second_, saved.second, saved.middle, state.out(), output_type(), true, residual);
  }

  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const Saved saved = saved_of(state, rows.rows);
    const void* x = converts_input() ? saved.x : input;
    ScratchParts parts(context().scratch.data());
    const Gradients g = take_gradients(parts, rows.rows);
    norm_gradients(stream, rows, second_, saved.second,
                   {true, state.out(), state.d_out(), output_type(), g.outer, state.d_out(), state.d_added},
                   accumulate);
    weight_gradient(stream, rows, second_, saved.middle, g.outer, accumulate);
    data_gradient(stream, rows, second_, g.outer, g.inner);
    norm_gradients(stream, rows, first_, saved.first, {true, nullptr, g.inner, type(), g.inner}, accumulate);
    weight_gradient(stream, rows, first_, x, g.inner, accumulate);
    if (shortcut_) {
      norm_gradients(stream, rows, *shortcut_, saved.shortcut, {false, nullptr, state.d_out(), output_type(), g.outer},
                     accumulate);
      weight_gradient(stream, rows, *shortcut_, x, g.outer, accumulate);
    }
    if (d_input) input_gradient(stream, rows, g, state, d_input);
  }

 private:
  struct Saved {
    void* x;  // the input in the compute type, unless it has that
    SavedNorm first, second, shortcut;
    void* middle;  // [rows, outputs] between the convolutions, in the compute type
  };
  Saved take_saved(ScratchParts& parts, int64_t rows) const {
    Saved saved{};
    saved.x = take_input(parts, rows);
    saved.first = take_norm(parts, first_, rows);
    saved.second = take_norm(parts, second_, rows);
    saved.middle = parts.take(rows * first_.outputs(), type());
    if (shortcut_) saved.shortcut = take_norm(parts, *shortcut_, rows);
    return saved;
  }
  Saved saved_of(const LayerState& state, int64_t rows) const {
    ScratchParts parts(state.saved[0]->as<std::byte>());
    return take_saved(parts, rows);
  }
  /// Temporary gradients of one backward.
  struct Gradients {
    void* outer;  // of the output of the second convolution, then of the shortcut's; in the compute type
    void* inner;  // of the output of the first
    void* x;      // of the input, unless that has the compute type
  };
  Gradients take_gradients(ScratchParts& parts, int64_t rows) const {
    Gradients g{};
    g.outer = parts.take(rows * second_.outputs(), type());
    g.inner = parts.take(rows * first_.outputs(), type());
    g.x = take_input(parts, rows);
    return g;
  }

  /// Whether the second part of the input's gradient has memory of its own: it is not what passed the ReLU, or has
  /// another type.
  bool has_second_part() const { return context().images_below && (shortcut_ || output_type() != type()); }

  void input_gradient(Stream& stream, const LayerRows& rows, const Gradients& g, const LayerState& state,
                      float* d_input) const {
    if (context().images_below) {
      data_gradient(stream, rows, first_, g.inner, d_input);
      if (shortcut_)
        data_gradient(stream, rows, *shortcut_, g.outer, state.saved[1]->data());
      else if (has_second_part())
        ops().matmul().convert(stream, state.d_out(), state.saved[1]->data(), type(), rows.rows * input_width());
      return;
    }
    void* dx = converts_input() ? g.x : d_input;
    data_gradient(stream, rows, first_, g.inner, dx);
    if (shortcut_) data_gradient(stream, rows, *shortcut_, g.outer, dx, true);
    if (converts_input()) widen(stream, rows, g.x, d_input);
    if (!shortcut_)
      ops().norm().residual_add(stream, {d_input, state.d_out(), d_input, rows.rows * input_width(), output_type()});
  }

  ConvNorm first_, second_;
  std::optional<ConvNorm> shortcut_;
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
std::unique_ptr<Layer> make_residual_block(const LayerContext& context) {
  return std::make_unique<ResidualBlock>(context);
}
std::unique_ptr<Layer> make_average_pool_layer(const LayerContext& context) {
  return std::make_unique<AveragePoolLayer>(context);
}

}  // namespace amdahl

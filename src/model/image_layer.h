// What the layers of images share: a normalised convolution, and the types in which images pass between layers.
//
// Images are [rows, height, width, channels]. Between these layers they have the compute type, in which convolutions
// read and write; what comes from, or goes to, another kind of layer or another device is f32. A normalisation uses the
// mean and variance of the rows that this device has in one micro-batch, as PyTorch's DistributedDataParallel does:
// results depend on how the global batch is split, and the running statistics of ranks differ. Those of rank 0 are
// saved.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/typed_layer.h"

namespace amdahl {

/// A convolution and the batch normalisation of its output, whose running statistics it keeps between steps. The weight
/// of the convolution is the layer's tensor `first`, those of the normalisation, gain and bias, are the next two.
class ConvNorm {
 public:
  struct Filters {
    int64_t channels, kernel, stride;
  };
  /// `norm`: the normalisation's name among the layer's parameters.
  ConvNorm(const LayerContext& context, std::string norm, size_t first, const Shape& input, const Filters& filters)
      : norm_(std::move(norm)),
        first_(first),
        shape_{.rows = 0,
               .height = input[0],
               .width = input[1],
               .in_channels = input[2],
               .out_channels = filters.channels,
               .kernel = filters.kernel,
               .stride = filters.stride,
               .padding = filters.kernel / 2,
               .type = context.ops.compute_type()},
        running_(context.device.allocate(2 * static_cast<size_t>(channels()) * sizeof(float))) {}

  ConvShape shape(int64_t rows) const {
    ConvShape shape = shape_;
    shape.rows = rows;
    return shape;
  }
  /// Shape of one row of the output.
  Shape output() const { return {shape_.out_height(), shape_.out_width(), channels()}; }
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

}  // namespace amdahl

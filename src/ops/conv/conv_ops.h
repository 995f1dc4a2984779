// ConvOps: two-dimensional convolutions, batch normalisation and pooling of images.
//
// Images are [rows, height, width, channels] (NHWC). Activations have `type` (f32, bf16 or f16); gradients of
// parameters and everything of the normalisation but its activations are f32. Weights are [out_channels, kernel,
// kernel, in_channels].
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

struct ConvShape {
  int64_t rows, height, width, in_channels, out_channels;  // of the input
  int64_t kernel = 3, stride = 1, padding = 1;
  DType type = DType::f32;
  int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};

/// y = x * w (cross-correlation, no bias). x, w and y of the shape's type.
struct ConvForward {
  ConvShape shape;
  const void* x;
  const void* w;
  void* y;
};
/// dx is set, or added to with `accumulate`.
struct ConvBackwardData {
  ConvShape shape;
  const void* dy;
  const void* w;
  void* dx;
  bool accumulate = false;
};
/// dw is f32; set, or added to with `accumulate`.
struct ConvBackwardFilter {
  ConvShape shape;
  const void* x;
  const void* dy;
  float* dw;
  bool accumulate = false;
};

/// y = relu?(gamma * (x - mean) * rstd + beta + residual) per channel. In training, mean and variance are those of the
/// batch, and the running ones move toward them by `momentum` (the running variance is unbiased, as PyTorch's); else
/// the running ones are used. residual and y may be the same memory.
struct BatchNormForward {
  const void* x;                   // [count, channels] of `type`, count = rows * height * width
  const void* residual = nullptr;  // [count, channels] of `y_type`; null: none
  void* y;                         // [count, channels] of `y_type`
  const float* gamma;
  const float* beta;  // [channels]
  float* running_mean;
  float* running_variance;  // [channels]
  float* mean;
  float* rstd;  // [channels], for backward; written in training only
  int64_t count, channels;
  float epsilon = 1e-5f, momentum = 0.1f;
  bool relu = true, training = true;
  DType type = DType::f32, y_type = DType::f32;  // y_type: `type`, or f32
};

/// Gradients of a forward in training. The gradient of y is dy + dy_added; with relu it passes only where y is not 0.
/// Without a residual, that follows from x, and y need not be read. dx and passed may be the memory of dy, passed that
/// of dy_added too.
struct BatchNormBackward {
  const void* x;   // [count, channels] of `type`
  const void* y;   // of `y_type`; not read without relu; null with relu: there was no residual
  const void* dy;  // of `y_type`
  const float* gamma;
  const float* mean;
  const float* rstd;
  void* dx;                        // of `type`
  void* passed = nullptr;          // of `y_type`: what passes, which is the residual's gradient; null: not wanted
  const void* dy_added = nullptr;  // of `y_type`; null: none. Needs `passed`
  const float* beta = nullptr;     // needed with relu where y is null
  float* dgamma;
  float* dbeta;
  int64_t count, channels;
  bool relu = true, accumulate = false;  // accumulate: dgamma and dbeta
  DType type = DType::f32, y_type = DType::f32;
};

/// Windows of kernel x kernel pixels, `stride` apart, on images padded by kernel / 2; the kernel is odd, at most 15.
struct PoolWindows {
  int64_t rows, height, width, channels, kernel, stride;
  int64_t padding() const { return kernel / 2; }
  int64_t out_height() const { return (height - 1) / stride + 1; }
  int64_t out_width() const { return (width - 1) / stride + 1; }
  int64_t inputs() const { return rows * height * width * channels; }
  int64_t outputs() const { return rows * out_height() * out_width() * channels; }
};

/// y = the largest pixel of each window by channel, NaN where it has one. Of equal pixels the first is chosen.
struct MaxPoolForward {
  PoolWindows windows;
  const void* x;    // [rows, height, width, channels] of `type`
  void* y;          // [rows, out_height, out_width, channels] of `y_type`
  uint8_t* chosen;  // as y: the pixel's place in its window, row * kernel + column
  DType type = DType::f32, y_type = DType::f32;
};
/// dx = for each pixel the sum of dy + dy_added of the windows that chose it, in the order of the windows.
struct MaxPoolBackward {
  PoolWindows windows;
  const void* dy;        // of `y_type`
  const void* dy_added;  // of `y_type`; null: none
  const uint8_t* chosen;
  void* dx;  // of `type`
  DType type = DType::f32, y_type = DType::f32;
};

class ConvOps {
 public:
  virtual ~ConvOps() = default;
  virtual void conv_forward(Stream& stream, const ConvForward& a) = 0;
  virtual void conv_backward_data(Stream& stream, const ConvBackwardData& a) = 0;
  virtual void conv_backward_filter(Stream& stream, const ConvBackwardFilter& a) = 0;
  virtual void batch_norm_forward(Stream& stream, const BatchNormForward& a) = 0;
  virtual void batch_norm_backward(Stream& stream, const BatchNormBackward& a) = 0;
  /// y [rows, channels] f32 = mean over the pixels of x [rows, pixels, channels] of `type`.
  virtual void average_pool(Stream& stream, const void* x, float* y, int64_t rows, int64_t pixels, int64_t channels,
                            DType type) = 0;
  virtual void average_pool_gradient(Stream& stream, const float* dy, void* dx, int64_t rows, int64_t pixels,
                                     int64_t channels, DType type) = 0;
  virtual void max_pool(Stream& stream, const MaxPoolForward& a) = 0;
  virtual void max_pool_gradient(Stream& stream, const MaxPoolBackward& a) = 0;
};

}  // namespace amdahl

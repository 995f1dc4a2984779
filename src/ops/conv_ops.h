// ConvOps: two-dimensional convolutions, batch normalisation and pooling of images.
//
// Images are [rows, height, width, channels] (NHWC). Activations have `type` (f32, bf16 or f16); parameters, their
// gradients and statistics are f32. Weights are [out_channels, kernel, kernel, in_channels].
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
/// the running ones are used.
struct BatchNormForward {
  const void* x;                   // [count, channels] of `type`, count = rows * height * width
  const void* residual = nullptr;  // like x; null: none
  void* y;                         // like x
  const float* gamma;
  const float* beta;  // [channels]
  float* running_mean;
  float* running_variance;  // [channels]
  float* mean;
  float* rstd;  // [channels], for backward
  int64_t count, channels;
  float epsilon = 1e-5f, momentum = 0.1f;
  bool relu = true, training = true;
  DType type = DType::f32;
};

/// With relu, dy is first zeroed where y is 0. d_residual gets that gradient (null: none).
struct BatchNormBackward {
  const void* x;
  const void* y;
  const void* dy;
  const float* gamma;
  const float* mean;
  const float* rstd;
  void* dx;
  void* d_residual = nullptr;
  float* dgamma;
  float* dbeta;
  int64_t count, channels;
  bool relu = true, accumulate = false;  // accumulate: dgamma and dbeta
  DType type = DType::f32;
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
};

}  // namespace amdahl

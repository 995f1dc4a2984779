// Element-wise CPU kernels of convolutional models, compiled once per instruction set; best_cpu_conv_kernels() picks
// the table at run time. Sums are in a fixed order, so reruns give the same bits.
#pragma once

#include <cstdint>

#include "ops/conv/conv_ops.h"

namespace amdahl {

/// Memory of one call of a kernel.
struct BatchNormWork {
  double* sums;   // [2, channels]
  float* values;  // [3, channels]
};

struct CpuConvKernels {
  void (*batch_norm_forward)(const BatchNormForward& a, const BatchNormWork& work);
  void (*batch_norm_backward)(const BatchNormBackward& a, const BatchNormWork& work);
  /// to += from.
  void (*add)(const float* from, float* to, int64_t count);
  /// y[rows, channels] = means over the pixels of x[rows, pixels, channels].
  void (*average_pool)(const float* x, float* y, int64_t rows, int64_t pixels, int64_t channels);
  void (*average_pool_gradient)(const float* dy, float* dx, int64_t rows, int64_t pixels, int64_t channels);
  void (*max_pool)(const MaxPoolForward& a);
  void (*max_pool_gradient)(const MaxPoolBackward& a);
};

extern const CpuConvKernels kCpuConvKernelsBaseline;  // the target's baseline instruction set
extern const CpuConvKernels kCpuConvKernelsAvx2;      // AVX2 and FMA; as baseline on other architectures

}  // namespace amdahl

// Element-wise CPU kernels, compiled once per instruction set; best_cpu_kernels() picks the table at run time.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace amdahl {

struct CpuKernels {
  /// a.y holds x w^T: adds the bias, then relu and dropout as in DenseForward. `step` is used only with dropout.
  void (*finish_forward)(const DenseForward& a, uint64_t step);
  /// dx = activation != 0 ? scale * dx : 0 in place, and column sums into dbias; null members mean the same as in
  /// DenseBackwardInput.
  void (*mask_and_column_sums)(const DenseBackwardInput& a);
  /// `stride`: floats from one row to the next.
  void (*column_sums)(const float* matrix, float* sums, int64_t rows, int64_t columns, int64_t stride, bool accumulate);
  void (*mse_loss)(const MseLoss& a);
  void (*adam_step)(const AdamStep& a, uint64_t step);
  void (*sgd_step)(const SgdStep& a);
  double (*sum_of_squares)(const float* values, int64_t n);
};

extern const CpuKernels kCpuKernelsBaseline;  // the target's baseline instruction set
extern const CpuKernels kCpuKernelsAvx2;      // AVX2 and FMA; same as baseline on other architectures

}  // namespace amdahl

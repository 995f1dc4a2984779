// The last step of sums over the columns of a matrix: partial sums of several blocks are added in a fixed order.
#pragma once

#include "ops/cuda_kernels.h"

namespace amdahl {

/// out[batch * out_stride + column] = scale * (sum over the parts) (+ out, with `accumulate`).
struct ColumnFinish {
  const float* partials;  // [batches, parts, width]
  float* out;
  int64_t parts, width;
  int64_t batches = 1, out_stride = 0;
  float scale = 1;
  bool accumulate = false;
};
void launch_column_finish(const KernelLaunch& launch, const ColumnFinish& a);

}  // namespace amdahl

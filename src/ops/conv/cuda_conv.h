// Kernels of batch normalisation, pooling and additions of gradients. Sums are taken in a fixed order: reruns
// are bit-equal.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/ops.h"

namespace amdahl {

void launch_batch_norm(const KernelLaunch& launch, const BatchNormForward& a);
/// Throws Error{usage} for more channels than half the stream's temporary floats.
void launch_batch_norm_gradient(const KernelLaunch& launch, const BatchNormBackward& a);

void launch_average_pool(const KernelLaunch& launch, const void* x, float* y, int64_t rows, int64_t pixels,
                         int64_t channels, DType type);
void launch_average_pool_gradient(const KernelLaunch& launch, const float* dy, void* dx, int64_t rows, int64_t pixels,
                                  int64_t channels, DType type);

void launch_max_pool(const KernelLaunch& launch, const MaxPoolForward& a);
void launch_max_pool_gradient(const KernelLaunch& launch, const MaxPoolBackward& a);

/// to[count] of `to_type` = from[count] of `from_type` (+ to, with `accumulate`).
void launch_copy_or_add(const KernelLaunch& launch, const void* from, DType from_type, void* to, DType to_type,
                        int64_t count, bool accumulate);

}  // namespace amdahl

// Dense layers with few rows (a local micro-batch of up to 64): one fused kernel launch per layer and direction.
//
// A step of such layers is a chain of small dependent GEMMs, bound by launches and latency rather than by arithmetic.
// All rows lie in the tile of one block, so masks and column sums need no second pass. Results are bit-equal from run
// to run.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/ops.h"
#include "plan/math_mode.h"

namespace amdahl {

/// Loads the code of these kernels, as preload_kernels does for the others. False when this build has none of them:
/// they need architecture 9.0 or later.
bool preload_small(int device_index);

/// Whether the kernels below support such a layer: a tensor-core math mode and at most kSmallRows rows.
bool small_dense_applies(MathMode math, int64_t batch, int64_t in, int64_t out);

void launch_small_forward(const KernelLaunch& launch, MathMode math, const DenseForward& a);
/// Both gradients of a layer, or one of them (the other is null). If both are given, they have the same dy and shape.
void launch_small_backward(const KernelLaunch& launch, MathMode math, const DenseBackwardWeight* weight,
                           const DenseBackwardInput* input);

/// Whether launch_small_update supports such a layer; its pointers must also be 16-byte aligned.
bool small_update_applies(MathMode math, int num_sms, int64_t batch, int64_t in, int64_t out);
/// The weight gradient and its Adam step in one pass, bit-equal to two separate passes. Does not write weight.dw.
void launch_small_update(const KernelLaunch& launch, MathMode math, const DenseBackwardWeight& weight,
                         const AdamStep& adam);

}  // namespace amdahl

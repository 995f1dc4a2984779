// Dense layers of few rows (a local micro-batch of up to 64), each direction in one launch with everything fused.
//
// Such a step is a chain of dependent small products whose time is launches and latency, not arithmetic: one kernel per
// layer and direction, all rows in one block's tile, so that masks and column sums need no second pass. Results are
// bit-equal from run to run.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/ops.h"

namespace amdahl {

inline constexpr int64_t kSmallRows = 64;

/// Loads the kernels' code, as preload_kernels does for the others. False when this build has none of them: it was made
/// for no architecture from 9.0 on, which they need.
bool preload_small(int device_index);

/// Whether the kernels below take such a layer: tensor-core math and few rows.
bool small_dense_applies(MathMode math, int64_t batch, int64_t in, int64_t out);

void launch_small_forward(const KernelLaunch& launch, MathMode math, const DenseForward& a);
/// Both gradients of a layer, or one of them: the other is null. When both, of the same dy and shape.
void launch_small_backward(const KernelLaunch& launch, MathMode math, const DenseBackwardWeight* weight,
                           const DenseBackwardInput* input);

/// Whether launch_small_update takes such a layer; its pointers must be 16-byte aligned besides.
bool small_update_applies(MathMode math, int num_sms, int64_t batch, int64_t in, int64_t out);
/// The weight gradient and its step of Adam in one pass, bit-equal to the two apart. Leaves weight.dw as it was.
void launch_small_update(const KernelLaunch& launch, MathMode math, const DenseBackwardWeight& weight,
                         const AdamStep& adam);

}  // namespace amdahl

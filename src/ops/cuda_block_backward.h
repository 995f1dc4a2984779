// Gradients of the inputs of a small pre-norm transformer block, one launch for all of them. A cluster of one block per
// head computes one sequence.
#pragma once

#include <cstddef>

#include "ops/transformer_block_ops.h"

namespace amdahl {

struct KernelLaunch;

/// Shared memory of a block of the kernel; 0: the kernel does not support the shape. Of f32 fewer steps fit.
size_t block_backward_shared_bytes(const BlockShape& s);
/// Enqueues the gradients. Reruns are bit-equal. dx may be d_out where the weight gradients do not read d_out.
void launch_block_backward(const KernelLaunch& launch, DType type, const BlockBackward& a);

}  // namespace amdahl

// Gradients of the inputs of a small pre-norm transformer block, one launch for all of them. A cluster of one block per
// head computes one sequence.
#pragma once

#include "ops/transformer_block_ops.h"

namespace amdahl {

struct KernelLaunch;

/// Whether the kernel supports a block: 1 to 4 heads, steps up to 128 as far as its shared memory holds them.
bool block_backward_applies(DType type, int64_t steps, int64_t heads);
void launch_block_backward(const KernelLaunch& launch, DType type, const BlockBackward& a);

}  // namespace amdahl

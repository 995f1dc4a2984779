// Forward of a small pre-norm transformer block in one launch. A cluster of one block per head computes one sequence.
//
//   const BlockShape shape{.sequences = 32, .steps = 96, .heads = 3, .width = 192, .hidden = 768, .type = DType::bf16};
//   if (block_forward_shared_bytes(shape) > 0) launch_block_forward(launch, shape.type, arrays);
#pragma once

#include <cstddef>

#include "ops/transformer_block_ops.h"

namespace amdahl {

struct KernelLaunch;

/// Bytes of shared memory of a block of the kernel; 0 where it does not support the shape: 1 to 4 heads of 64 columns,
/// 4 * width hidden units, up to 128 steps; or in a build without architecture 9.0.
size_t block_forward_shared_bytes(const BlockShape& shape);
/// f32 is multiplied as tf32.
void launch_block_forward(const KernelLaunch& launch, DType type, const BlockForward& a);

}  // namespace amdahl

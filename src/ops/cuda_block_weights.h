// Weight gradients of the dense layers of a small transformer block, all in one launch.
#pragma once

#include "ops/transformer_block_ops.h"

namespace amdahl {

struct KernelLaunch;

/// Enqueues the products, in `type`; f32 products are of tf32 values. Reruns on the same GPU are bit-equal.
void launch_weight_gradients(const KernelLaunch& launch, DType type, const WeightGradients& a);

}  // namespace amdahl

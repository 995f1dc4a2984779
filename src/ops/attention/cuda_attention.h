// Attention by own kernels, right for every supported shape and type; without the matrix of scores in memory. Backward
// sums in a fixed order: reruns are bit-equal. And the passes over queries and keys before attention.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/gemm/cuda_gemm.h"
#include "ops/ops.h"

namespace amdahl {

inline constexpr int64_t kMostHeadWidth = 128;

/// `math` is that of f32: fp32, or else tf32. Pointers of elements must be 16-byte aligned.
void launch_attention(const KernelLaunch& launch, MathMode math, const AttentionForward& a);
/// The workspace holds a float per row of scores.
void launch_attention_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, MathMode math,
                               const AttentionBackward& a);

/// Throws Error{usage} for heads wider than kMostHeadWidth.
void launch_heads(const KernelLaunch& launch, const HeadsForward& a);
/// Partial sums of the weights' gradients are in the workspace.
void launch_heads_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, const HeadsBackward& a);

}  // namespace amdahl

// Kernels of layer normalisation and of residual additions. Sums are taken in a fixed order: reruns are bit-equal.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/gemm/cuda_gemm.h"
#include "ops/ops.h"

namespace amdahl {

inline constexpr int64_t kMostNormWidth = 8192;  // a row is kept in the registers of its block

// These throw Error{usage} for wider rows.
void launch_layer_norm(const KernelLaunch& launch, const LayerNormForward& a);
/// Partial sums of dgamma and dbeta are in the workspace.
void launch_layer_norm_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, const LayerNormBackward& a);
void launch_residual_add(const KernelLaunch& launch, const ResidualAdd& a);

}  // namespace amdahl

// Checks at start-up which fused epilogues of the loaded cuBLASLt do what gemm_ops.h specifies, mask layout included.
// An epilogue that is missing or differs is replaced by separate kernels, so that a changed library cannot cause
// silently wrong gradients.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/gemm/cuda_gemm.h"
#include "ops/gemm/cuda_tuner.h"

namespace amdahl {

struct MaskSupport {
  bool forward = false;      // relu_bias_mask writes the mask in the layout of gemm_ops.h
  bool backward = false;     // masked_sum reads that layout, scales before masking and gives the right sums
  bool weight_sums = false;  // sum_b gives the right sums
};

/// Runs on launch.stream, which must be the stream of `tuner`.
MaskSupport probe_masks(CudaTuner& tuner, CudaGemm& gemm, const KernelLaunch& launch, const GemmWorkspace& workspace);

}  // namespace amdahl

// Finds out at start which fused epilogues of the loaded cuBLASLt do what ops.h says, mask layout included. What is not
// there, or differs, is done by separate kernels: no silent wrong gradient from a library that changed.
#pragma once

#include "ops/cuda_gemm.h"
#include "ops/cuda_kernels.h"
#include "ops/cuda_tuner.h"

namespace amdahl {

struct MaskSupport {
  bool forward = false;      // relu_bias_mask writes our layout
  bool backward = false;     // masked_sum reads it, scales before masking and sums right
  bool weight_sums = false;  // sum_b sums right
};

/// Runs on launch.stream, which is the tuner's.
MaskSupport probe_masks(CudaTuner& tuner, CudaGemm& gemm, const KernelLaunch& launch, const GemmWorkspace& workspace);

}  // namespace amdahl

// Checks, before its first use, that a fused epilogue of cuBLASLt gives the results of separate kernels. A changed
// library then costs speed instead of correctness.
#pragma once

#include <functional>

#include "ops/gemm/cuda_tuner.h"
#include "ops/ops.h"

namespace amdahl {

/// Enqueues a small problem, fused or separate, on the tuner's stream; false: the fused one is not supported.
using EpilogueRun = std::function<bool(const MatMul& a, bool fused)>;

/// Compares both methods on a small problem with the epilogue, the types, the transpositions and the outputs of `kind`.
bool probe_epilogue(CudaTuner& tuner, int device_index, const MatMul& kind, const EpilogueRun& run);

}  // namespace amdahl

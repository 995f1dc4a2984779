// What the CPU's families are made of.
#pragma once

#include <memory>

#include "ops/cpu_kernels.h"
#include "ops/ops.h"

namespace amdahl {

/// For this CPU's instruction set.
const CpuKernels& best_cpu_kernels();
/// Throws Error{environment_missing} in a build without oneDNN.
std::unique_ptr<GemmOps> make_cpu_gemm_ops();

}  // namespace amdahl

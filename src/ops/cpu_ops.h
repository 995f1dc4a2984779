// Building blocks of the CPU Ops families.
#pragma once

#include <memory>

#include "ops/cpu_kernels.h"
#include "ops/ops.h"

namespace amdahl {

/// The kernels for the best instruction set that this CPU supports.
const CpuKernels& best_cpu_kernels();
/// Throws Error{environment_missing} in a build without oneDNN.
std::unique_ptr<GemmOps> make_cpu_gemm_ops();

}  // namespace amdahl

// CUDA Ops: cuBLASLt for GEMMs, own kernels for everything else. The faster of fused and separate kernels is chosen by
// timing.
#pragma once

#include <string>
#include <vector>

#include "ops/ops.h"

namespace amdahl {

/// The choices made so far, one line per problem: "backward-input 64x1024x512: fused (fused 3.10 us, separate 5.20
/// us)". Empty for Ops of another backend.
std::vector<std::string> cuda_ops_choices(const Ops& ops);

}  // namespace amdahl

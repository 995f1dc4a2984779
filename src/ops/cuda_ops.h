// Ops on CUDA: cuBLASLt for products, own kernels for the rest, the faster of fused and separate steps chosen by
// timing.
#pragma once

#include <string>
#include <vector>

#include "ops/ops.h"

namespace amdahl {

/// What was chosen so far, a line per problem: "backward-input 64x1024x512: fused 3.1 us, separate 5.2 us". Empty for
/// ops of another backend.
std::vector<std::string> cuda_ops_choices(const Ops& ops);

}  // namespace amdahl

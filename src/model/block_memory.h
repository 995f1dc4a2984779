// The parameters of a transformer block and the memory of its passes.
#pragma once

#include <cstddef>

namespace amdahl {

/// In the order of parameters_of().
enum BlockParameter : size_t {
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias
};

/// What forward keeps for backward; `steps` x rows of each. Under sequence parallelism a rank has its own tokens of
/// what enters and leaves normalisations and additions, and all tokens between the GEMMs of a branch.
struct BlockSaved {
  void* norm1;      // [units] input of the qkv GEMM; post-norm: the block's input
  void* qkv;        // [3 units]
  void* attention;  // [units]
  void* norm2;      // [units] input of the up GEMM
  void* up;         // [4 units] before GELU
  void* gelu;       // [4 units]
  float* middle;    // [units] what the second normalisation (pre-norm) or the first (post-norm) reads
  float* last;      // [units] post-norm: what the second normalisation reads
  float* residual;  // [units] post-norm: output of the first normalisation in f32
  float *mean1, *rstd1, *mean2, *rstd2;
  float* log_sums;  // [heads]
};

/// Temporary gradients of one backward.
struct BlockGradients {
  void* branch;   // [units] of a branch's output, in the compute type
  void* narrow;   // [units] of a GEMM's input
  void* wide;     // [4 units] of the up GEMM's output, or [3 units] of q, k, v
  float* middle;  // [units] of the residual stream between the branches
  float* unused;  // [units] in place of an input gradient that nobody wants
  // Where tokens are divided:
  void* gathered;  // [units] all tokens of a GEMM's input
  float* sums;     // [4, units] gradients of the normalisations, from this rank's tokens
};

}  // namespace amdahl

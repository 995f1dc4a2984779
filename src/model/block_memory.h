// The parameters of a transformer block and the memory of its passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace amdahl {

/// The bias of a weight, if it has one, is the next.
enum BlockParameter : size_t {
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kQNormWeight,
  kKNormWeight,
  kOutWeight,
  kOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kNumBlockParameters
};
/// Their names among parameters_of(), where the spec decides which there are.
inline constexpr std::string_view kBlockParameterNames[kNumBlockParameters] = {"norm1.weight",
                                                                               "norm1.bias",
                                                                               "attention.qkv.weight",
                                                                               "attention.qkv.bias",
                                                                               "attention.q_norm.weight",
                                                                               "attention.k_norm.weight",
                                                                               "attention.out.weight",
                                                                               "attention.out.bias",
                                                                               "norm2.weight",
                                                                               "norm2.bias",
                                                                               "mlp.up.weight",
                                                                               "mlp.up.bias",
                                                                               "mlp.down.weight",
                                                                               "mlp.down.bias"};

/// What forward keeps for backward; `steps` x rows of each. Under sequence parallelism a rank has its own tokens of
/// what enters and leaves normalisations and additions, and all tokens between the GEMMs of a branch.
struct BlockSaved {
  void* norm1;      // [units] input of the qkv GEMM; post-norm: the block's input
  void* qkv;        // [(heads + 2 kv_heads) head_dim] of the heads that are held here, as attention reads them
  void* heads;      // [(heads + kv_heads) head_dim] q and k before they are normalised; null: they are not
  void* attention;  // [heads head_dim]
  void* norm2;      // [units] input of the up GEMM
  void* up;         // [hidden, gated 2 hidden] before the activation; in backward its gradient, unless a GEMM makes it
  void* activated;  // [hidden]; in backward its gradient, where that of `up` is
  float* middle;    // [units] what the second normalisation (pre-norm) or the first (post-norm) reads
  float* last;      // [units] post-norm: what the second normalisation reads
  float* residual;  // [units] post-norm: output of the first normalisation in f32
  float *mean1, *rstd1, *mean2, *rstd2;  // means are null of the root-mean-square normalisation
  float* log_sums;                       // [heads]
  const int32_t* starts;                 // LayerRows::starts
};

/// Temporary gradients of one backward.
struct BlockGradients {
  void* branch;   // [units] of a branch's output, in the compute type
  void* narrow;   // [units or heads head_dim] of a GEMM's input
  void* wide;     // of q, k, v, or [hidden] of the up GEMM's output where a GEMM makes it
  float* middle;  // [units] of the residual stream between the branches
  float* unused;  // [units] in place of an input gradient that nobody wants
  float* heads;   // [2, head_dim] of the normalisations of q and k, from this rank's heads; null: all are here
  // Where tokens are divided:
  void* gathered;  // [units] all tokens of a GEMM's input
  float* sums;     // [normalisations' parameters, units] their gradients, from this rank's tokens
};

}  // namespace amdahl

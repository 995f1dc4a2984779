// Gradients of the inputs of a small pre-norm transformer block, one launch for all of them. A cluster of one block per
// head computes one sequence.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"

namespace amdahl {

struct KernelLaunch;

/// Heads have 64 columns, the width is heads * 64, hidden units are 4 * width; all arrays are 16-byte aligned. Arrays of
/// the compute type (bf16, f16, or f32 for products of tf32) are void. Tokens are sequences * steps rows.
struct BlockBackward {
  int sequences, steps, heads;
  bool causal;
  // What forward kept:
  const float* x;             // [tokens, width] the block's input
  const float* middle;        // [tokens, width] the residual stream between attention and the dense layers
  const void* qkv;            // [tokens, 3 width]
  const void* attention;      // [tokens, width]
  const void* up;             // [tokens, 4 width] before GELU
  const float* log_sums;      // [sequences, heads, steps]
  const float *mean1, *rstd1, *mean2, *rstd2;  // [tokens]
  // Parameters; weights are [out, in]:
  const float *gamma1, *gamma2;                                            // [width]
  const void *qkv_weight, *out_weight, *up_weight, *down_weight;  // of the compute type
  const float* d_out;                                                      // [tokens, width]
  // Results. The typed ones are operands of the weight gradients; f32 needs no typed copies: null.
  float* dx;             // [tokens, width]
  float* d_middle;       // [tokens, width]
  float* norm_partials;  // [sequences, 4, width]: sums over a sequence of dgamma1, dbeta1, dgamma2, dbeta2
  void* d_out_typed;     // [tokens, width]
  void* d_middle_typed;  // [tokens, width]
  void* d_up;            // [tokens, 4 width]
  void* d_qkv;           // [tokens, 3 width]
};

/// Whether the kernel supports a block: 1 to 4 heads, steps up to 128 as far as its shared memory holds them.
bool block_backward_applies(DType type, int64_t steps, int64_t heads);
void launch_block_backward(const KernelLaunch& launch, DType type, const BlockBackward& a);

}  // namespace amdahl

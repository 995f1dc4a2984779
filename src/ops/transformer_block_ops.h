// TransformerBlockOps: whole pre-norm transformer blocks of small models, one kernel launch per direction. For the
// shapes that it supports it takes the place of the launches of matmul, attention and norm operations; results are
// rounded at the same places.
//
// Heads have 64 columns, the width is heads * 64, hidden units are 4 * width. Arrays are 16-byte aligned. Arrays of the
// compute type (bf16, f16, or f32 for products of tf32) are void. Tokens are sequences * steps rows. Weights are
// [out, in].
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

struct BlockShape {
  int64_t sequences, steps, heads, width, hidden;
  bool causal = false;
  DType type = DType::f32;
};

/// Parameters and what forward keeps for backward.
struct BlockForward {
  int sequences, steps, heads;
  bool causal;
  const float* x;                                // [tokens, width] the block's input
  const float *gamma1, *beta1, *gamma2, *beta2;  // [width]
  const void *qkv_weight, *qkv_bias;             // [3 width, width], [3 width]
  const void *out_weight, *out_bias;             // [width, width], [width]
  const void *up_weight, *up_bias;               // [4 width, width], [4 width]
  const void *down_weight, *down_bias;           // [width, 4 width], [width]
  float epsilon = 1e-5f;
  // Results:
  void* norm1;                           // [tokens, width]
  void* qkv;                             // [tokens, 3 width]
  void* attention;                       // [tokens, width]
  float* middle;                         // [tokens, width] x + the attention branch
  void* norm2;                           // [tokens, width]
  void* up;                              // [tokens, 4 width] before GELU
  void* gelu;                            // [tokens, 4 width]
  float *mean1, *rstd1, *mean2, *rstd2;  // [tokens]
  float* log_sums;                       // [sequences, heads, steps]
  float* out;                            // [tokens, width]
};

struct BlockBackward {
  int sequences, steps, heads;
  bool causal;
  // What forward kept:
  const float* x;                              // [tokens, width] the block's input
  const float* middle;                         // [tokens, width]
  const void* qkv;                             // [tokens, 3 width]
  const void* attention;                       // [tokens, width]
  const void* up;                              // [tokens, 4 width] before GELU
  const float* log_sums;                       // [sequences, heads, steps]
  const float *mean1, *rstd1, *mean2, *rstd2;  // [tokens]
  // Parameters:
  const float *gamma1, *gamma2;                                   // [width]
  const void *qkv_weight, *out_weight, *up_weight, *down_weight;  // of the compute type
  const float* d_out;                                             // [tokens, width]
  // Results. The typed ones are operands of the weight gradients; f32 needs no typed copies: null.
  float* dx;             // [tokens, width]
  float* d_middle;       // [tokens, width]
  float* norm_partials;  // [sequences, 4, width]: sums over a sequence of dgamma1, dbeta1, dgamma2, dbeta2
  void* d_out_typed;     // [tokens, width]
  void* d_middle_typed;  // [tokens, width]
  void* d_up;            // [tokens, 4 width]
  void* d_qkv;           // [tokens, 3 width]
};

inline constexpr int kMostWeightProducts = 4, kColumnResults = 4;

/// dw[out,in] = dy[tokens,out]^T x[tokens,in]; dbias[out]: the sums of dy's columns. `out` and `in` are multiples of 8.
struct WeightProduct {
  const void *dy, *x;  // of the compute type
  float* dw;
  float* dbias;  // null: none
  int out, in;
};

/// The products of one launch, and column sums to finish: results[r][c] = sum over p of partials[p, r, c].
struct WeightGradients {
  WeightProduct products[kMostWeightProducts];
  int num_products, tokens;
  const float* partials;           // [parts, kColumnResults, result_width]
  float* results[kColumnResults];  // of result_width elements each
  int parts, result_width;         // 0: no column sums
  bool accumulate;                 // add to what dw, dbias and results hold
};

/// One thread at a time.
class TransformerBlockOps {
 public:
  virtual ~TransformerBlockOps() = default;
  /// Whether the passes support a block on this device, for any number of sequences.
  virtual bool has_forward(const BlockShape& shape) const = 0;
  virtual bool has_backward(const BlockShape& shape) const = 0;
  virtual void forward(Stream& stream, DType type, const BlockForward& a) = 0;
  /// All gradients but those of weights and their biases.
  virtual void backward(Stream& stream, DType type, const BlockBackward& a) = 0;
  /// Whether weight_gradients is meant for products over that many tokens: with more, single products are faster. It
  /// finishes column sums of any number of parts.
  virtual bool groups_weight_gradients(int64_t tokens) const = 0;
  virtual void weight_gradients(Stream& stream, DType type, const WeightGradients& a) = 0;
};

}  // namespace amdahl

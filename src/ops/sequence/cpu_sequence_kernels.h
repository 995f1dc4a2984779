// Element-wise CPU kernels of sequence models, compiled once per instruction set; best_cpu_sequence_kernels() picks the
// table at run time. Sums of rows are in f32 in a fixed order, so reruns give the same bits.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace amdahl {

/// Scores of `rows` consecutive queries of one head against `keys` steps. With `causal`, query r is step first + r of
/// these and attends to the steps up to itself, with a window to so many.
struct ScoreRows {
  float* scores;  // [rows, keys], `stride` floats from row to row
  int64_t rows, keys;
  int64_t stride;  // a multiple of 16, the widest vector; columns in [keys, stride) may be overwritten
  int64_t first;
  bool causal;
  float scale;                      // positive
  int64_t window = 0;               // 0: none
  const int32_t* starts = nullptr;  // [rows] the first step that each query attends to; null: all do to the first
  int64_t first_key = 0;            // the step of the first key
};

/// to[columns, rows] = transpose of from[rows, columns]; strides are floats from one row to the next.
struct Transpose {
  const float* from;
  int64_t stride_from;
  float* to;
  int64_t stride_to;
  int64_t rows, columns;
};

/// A block of a product and what its epilogue reads and writes, each [rows, width] with a stride of its own.
struct Epilogue {
  const float* product = nullptr;
  int64_t stride_product = 0;
  float* c = nullptr;
  int64_t stride_c = 0;
  float* aux = nullptr;
  int64_t stride_aux = 0;
  const float* bias = nullptr;  // [width]
  float* dbias = nullptr;       // [width]
  int64_t rows = 0, width = 0;
};

struct CpuSequenceKernels {
  void (*transpose)(const Transpose& a);
  // Epilogues of a block of a product [rows, width], which may be where the result goes.
  /// c = product + bias.
  void (*add_bias)(const Epilogue& a);
  /// aux = product + bias; c = gelu(aux).
  void (*bias_gelu)(const Epilogue& a);
  /// c = product * gelu'(aux); dbias (null: none) += column sums of c.
  void (*gelu_gradient)(const Epilogue& a);
  void (*activate)(const Activate& a);
  void (*activate_gradient)(const ActivateGradient& a);
  /// sums[rows] = sums of the rows of x (+ sums).
  void (*row_sums)(const float* x, float* sums, int64_t rows, int64_t width, int64_t stride, bool accumulate);

  void (*layer_norm_forward)(const LayerNormForward& a);
  void (*layer_norm_backward)(const LayerNormBackward& a);
  /// sum = x + y; may be x or y.
  void (*add)(const float* x, const float* y, float* sum, int64_t count);

  /// Replaces scores by exp(scale * (score - largest of the row)), by zero where masked; log_sums[rows] = log of the
  /// sum of exp(scale * score), inverse_sums[rows] = 1 / (sum of the row as written).
  void (*softmax_rows)(const ScoreRows& a, float* log_sums, float* inverse_sums);
  /// Replaces scores by the probabilities p = exp(scale * score - log_sum), and d_p[rows, keys] (of the scores' stride)
  /// by scale * p * (d_p - dot), where dot[rows] is the sum of p d_p of a row. Zero where masked.
  void (*softmax_gradient)(const ScoreRows& a, float* d_p, const float* log_sums, const float* dots);
  /// dots[r] = sum over width of a[r,:] b[r,:]; rows of both `stride` floats apart.
  void (*row_dots)(const float* a, const float* b, float* dots, int64_t rows, int64_t width, int64_t stride);
  /// x[r,:] *= factors[r].
  void (*scale_rows)(float* x, const float* factors, int64_t rows, int64_t width, int64_t stride);

  void (*heads_forward)(const HeadsForward& a);
  void (*heads_backward)(const HeadsBackward& a);

  void (*embedding_forward)(const EmbeddingForward& a);
  void (*embedding_backward)(const EmbeddingBackward& a);
  void (*pool_mean)(const PoolSteps& a);
  void (*pool_mean_gradient)(const PoolStepsGradient& a);
  void (*token_loss)(const TokenLoss& a);
  void (*token_loss_parts)(const TokenLossShard& a);
  void (*token_loss_of_parts)(const TokenLossShard& a);
  void (*absolute_error)(const AbsoluteError& a);
};

extern const CpuSequenceKernels kCpuSequenceKernelsBaseline;  // the target's baseline instruction set
extern const CpuSequenceKernels kCpuSequenceKernelsAvx2;      // AVX2 and FMA; as baseline on other architectures
extern const CpuSequenceKernels kCpuSequenceKernelsAvx512;    // AVX-512 F, BW, DQ and VL; the same

}  // namespace amdahl

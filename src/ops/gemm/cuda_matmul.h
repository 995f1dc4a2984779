// Kernels around the GEMMs of typed matrices: conversions, column sums, and the epilogues that cuBLASLt lacks. All sums
// are taken in a fixed order: reruns are bit-equal.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/ops.h"

namespace amdahl {

/// Sums over the rows of each of `batches` matrices: out[b, w] = scale * (sum over r of x[b, r, w]) (+ out).
struct ColumnSums {
  const void* x;  // [batches, rows, width], rows `stride` elements apart
  DType type;
  float* out;  // [batches, width]
  int64_t rows, width;
  int64_t stride = 0;  // 0: width
  int64_t batches = 1;
  int64_t out_stride = 0;  // floats between the sums of two matrices; 0: width
  float scale = 1.0f;
  bool accumulate = false;
};
void launch_column_sums(const KernelLaunch& launch, const ColumnSums& a);

/// to[i] = from[i] rounded to `type`.
void launch_convert(const KernelLaunch& launch, const float* from, void* to, DType type, int64_t count);

/// The epilogue of a product, applied in place. c [rows, width] of c_type, rows `stride` elements apart; aux
/// [rows, width] and bias [width] of `type`.
struct ProductEpilogue {
  void* c;
  void* aux;
  const void* bias;
  float* dbias;
  int64_t rows, width, stride;
  DType type, c_type;
  bool accumulate_dbias = false;
};
/// c += bias.
void launch_bias(const KernelLaunch& launch, const ProductEpilogue& a);
/// aux holds the product: aux += bias, c = gelu(aux).
void launch_bias_gelu(const KernelLaunch& launch, const ProductEpilogue& a);
/// c *= gelu'(aux), dbias = column sums of c (null: none).
void launch_gelu_gradient(const KernelLaunch& launch, const ProductEpilogue& a);

void launch_activate(const KernelLaunch& launch, const Activate& a);
void launch_activate_gradient(const KernelLaunch& launch, const ActivateGradient& a);

}  // namespace amdahl

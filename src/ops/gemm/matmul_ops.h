// MatMulOps: matrix products of typed matrices with an epilogue, for layers that are more than one dense layer.
//
// Matrices are row-major. `type` is f32, bf16 or f16; products are summed in f32. Parameters and their gradients are
// f32 in the model; layers convert parameters to `type` before use.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

enum class MatMulEpilogue {
  none,           // c = op(a) op(b)
  bias,           // c = op(a) op(b) + bias
  bias_gelu,      // aux = op(a) op(b) + bias, c = gelu(aux); the tanh approximation
  gelu_gradient,  // c = (op(a) op(b)) * gelu'(aux), dbias[n] = column sums of c (null: none)
  sum_rows_of_a,  // c = op(a) op(b), dbias[m] = sums over k of op(a), for op(a) = dy^T
};

/// c[m,n] = epilogue(op(a)[m,k] op(b)[k,n]) (+ c, with `accumulate`, only for the epilogues none and sum_rows_of_a).
/// With `transpose_a`, `a` is stored as [k,m]; with `transpose_b`, `b` is stored as [n,k].
struct MatMul {
  const void* a;
  const void* b;
  void* c;
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  DType type = DType::f32;    // of a, b, aux and bias
  DType c_type = DType::f32;  // `type`, or f32
  MatMulEpilogue epilogue = MatMulEpilogue::none;
  const void* bias = nullptr;  // [n] of `type`
  void* aux = nullptr;         // [m,n] of `type`, written by bias_gelu, read by gelu_gradient
  float* dbias = nullptr;      // f32; added to when `accumulate_dbias`
  bool accumulate = false, accumulate_dbias = false;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between stored rows; 0: dense
};

enum class HiddenActivation { gelu, silu, exact_gelu };  // gelu: the tanh approximation

/// Between two products: y[r,i] = act(x[r,i]); gated: y[r,i] = act(x[r,i]) * x[r, width + i].
struct Activate {
  HiddenActivation kind;
  bool gated;
  const void* x;  // [rows, width] of `type`; gated: [rows, 2 width]
  void* y;        // [rows, width]
  int64_t rows, width;
  DType type = DType::f32;
};
/// d_x like x, from d_y like y; d_x may be x.
struct ActivateGradient {
  HiddenActivation kind;
  bool gated;
  const void* x;
  const void* d_y;
  void* d_x;
  int64_t rows, width;
  DType type = DType::f32;
};

class MatMulOps {
 public:
  virtual ~MatMulOps() = default;
  virtual void matmul(Stream& stream, const MatMul& a) = 0;
  /// to[i] = from[i] rounded to `type` (to nearest, ties to even).
  virtual void convert(Stream& stream, const float* from, void* to, DType type, int64_t count) = 0;
  /// out[w] = sums over rows of x[rows, width] of `type`, added to out when `accumulate`.
  virtual void column_sums(Stream& stream, const void* x, DType type, float* out, int64_t rows, int64_t width,
                           bool accumulate) = 0;
  virtual void activate(Stream& stream, const Activate& a) = 0;
  virtual void activate_gradient(Stream& stream, const ActivateGradient& a) = 0;
};

}  // namespace amdahl

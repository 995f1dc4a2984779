// GemmOps: dense layers, each direction a GEMM with its epilogue (bias, relu, dropout, masks, column sums).
//
// Matrices are row-major f32. B rows of the local micro-batch, I input width, O output width.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "ops/optimizer/optimizer_ops.h"

namespace amdahl {

// A mask is an optional bit copy of "activation != 0" that lets a backend fuse the masking into a GEMM: bit (row,
// column) is bit `row * mask_row_bits(width) + column`, lowest bit of a byte first (cuBLASLt's RELU_AUX layout).
// Callers allocate Ops::mask_bytes(batch, width) bytes, 16-byte aligned, and pass null when that is 0.
inline constexpr int64_t mask_row_bits(int64_t width) { return (width + 127) / 128 * 128; }

/// The dropout of a layer's output: kept elements are multiplied by 1/(1-p), others zeroed. The draw of an element
/// depends only on (seed, *step, layer, row_offset + row, column_offset + column), so every partition of rows and
/// columns among devices gives the mask of a single device.
struct Dropout {
  double p = 0.0;  // 0: none
  uint64_t seed = 0;
  const uint64_t* step = nullptr;  // device pointer
  uint32_t layer = 0;
  int64_t row_offset = 0;
  int64_t column_offset = 0;  // index of y's first column in the whole layer, a multiple of 4
};

/// y[B,O] = dropout(relu?(x[B,I] w[O,I]^T + bias[O])); bias may be null. With relu and a mask, also fills the mask of
/// y.
struct DenseForward {
  const float* x;
  const float* w;
  const float* bias;
  float* y;
  int64_t batch, in, out;
  bool relu;
  uint8_t* mask = nullptr;
  Dropout dropout = {};  // needs relu
};

/// dx[B,I] = scale * (dy[B,O] w[O,I]), then zero wherever `activation` [B,I] is zero; when dbias is set,
/// dbias[I] = (accumulate ? dbias : 0) + column sums of dx. `activation` null: no masking, `dbias` null: no sums.
/// `activation` is the output of relu and dropout of the layer below, so its zeros are the places without gradient.
struct DenseBackwardInput {
  const float* dy;
  const float* w;
  const float* activation;
  float* dx;
  float* dbias;
  int64_t batch, in, out;
  float scale;
  bool accumulate;
  const uint8_t* mask = nullptr;  // of `activation`, which must be set too
};

/// dw[O,I] = (accumulate ? dw : 0) + dy[B,O]^T x[B,I]; when dbias is set, dbias[O] = (accumulate ? dbias : 0) + column
/// sums of dy. The row stride of dy is `dy_stride` floats (0: O), so that the gradient of a subset of the outputs can
/// be computed by itself.
struct DenseBackwardWeight {
  const float* x;
  const float* dy;
  float* dw;
  float* dbias;
  int64_t batch, in, out;
  bool accumulate;
  int64_t dy_stride = 0;
  int reserved_sms = 0;  // SMs that concurrent work occupies
};

class GemmOps {
 public:
  virtual ~GemmOps() = default;
  /// Bytes of the mask of an activation [batch, width]; 0 when this backend does not use masks.
  virtual int64_t mask_bytes(int64_t batch, int64_t width) const {
    (void)batch, (void)width;
    return 0;
  }
  virtual void dense_forward(Stream& stream, const DenseForward& a) = 0;
  virtual void dense_backward_input(Stream& stream, const DenseBackwardInput& a) = 0;
  virtual void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) = 0;
  /// Both gradients of one layer; `input` is null for the first layer. They share dy, so a backend may compute both in
  /// one kernel.
  virtual void dense_backward(Stream& stream, const DenseBackwardWeight& weight, const DenseBackwardInput* input) {
    dense_backward_weight(stream, weight);
    if (input) dense_backward_input(stream, *input);
  }
  /// Whether dense_backward is faster than the two single calls at this number of rows. If so, both gradients of a
  /// layer are computed together; if not, a strategy that overlaps communication may choose another order.
  virtual bool fuses_backward(int64_t batch) const {
    (void)batch;
    return false;
  }
  /// Whether dense_backward_update of such a layer is one pass that never writes the gradient to memory.
  virtual bool fuses_update(int64_t batch, int64_t in, int64_t out) const {
    (void)batch, (void)in, (void)out;
    return false;
  }
  /// The weight gradient (no bias gradient, not accumulated) and one Adam step on the weights at `adam.params`, in one
  /// pass. Only where fuses_update is true; `weight.dw` does not hold the gradient afterwards.
  virtual void dense_backward_update(Stream& stream, const DenseBackwardWeight& weight, const AdamStep& adam) {
    (void)stream, (void)weight, (void)adam;
    throw Error(Cause::internal, "this backend has no update within backward");
  }
};

}  // namespace amdahl

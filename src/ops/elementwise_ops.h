// ElementwiseOps: element-wise passes that are not fused into a GEMM, row gathers and counters.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "ops/gemm/gemm_ops.h"

namespace amdahl {

/// y[B,W] = dropout(relu?(y + bias)) in place; bias may be null. With relu and a mask, also fills the mask of y.
struct BiasActivation {
  float* y;
  const float* bias;
  int64_t batch, width;
  bool relu;
  uint8_t* mask = nullptr;
  Dropout dropout = {};  // needs relu
};

/// Zeroes dx[B,W] in place where `activation` is 0. A `mask`, when set, is read instead; when both are null, dx is
/// kept. dbias[W] (may be null) gets the column sums, added to its content when `accumulate`.
struct MaskAndSum {
  float* dx;
  const float* activation;
  const uint8_t* mask;
  float* dbias;
  int64_t batch, width;
  bool accumulate;
};

/// sum[n] = factor * (arrays[0] + arrays[1] + ...) of arrays of n floats each that begin `stride` floats apart, added
/// one after another in this order in f32; with `accumulate` to what `sum` holds. Equal values give equal bits on all
/// devices of one backend. `sum` may be one of the arrays.
struct SumArrays {
  const float* arrays;
  int64_t stride = 0;
  int64_t num_arrays = 1;
  float* sum;
  int64_t n;
  bool accumulate = false;
  float factor = 1;
};

class ElementwiseOps {
 public:
  virtual ~ElementwiseOps() = default;
  virtual void bias_activation(Stream& stream, const BiasActivation& a) = 0;
  virtual void mask_and_sum(Stream& stream, const MaskAndSum& a) = 0;
  virtual void sum_arrays(Stream& stream, const SumArrays& a) = 0;
  /// out[i, :] = table[indices[i], :] for `rows` rows of `width` floats.
  virtual void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                           int64_t width) = 0;
  /// *counter += 1, in stream order, unless *unless is not 0 (null: 0).
  virtual void increment(Stream& stream, uint64_t* counter, const float* unless) = 0;
  void increment(Stream& stream, uint64_t* counter) { increment(stream, counter, nullptr); }
};

}  // namespace amdahl

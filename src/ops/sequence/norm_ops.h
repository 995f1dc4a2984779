// NormOps: normalisation over the last dimension, fused with the residual addition before it.
//
// The residual stream and its gradient are f32; what enters and leaves GEMMs has `type` (f32, bf16 or f16). Means,
// variances and sums are f32.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

/// sum = x + delta; y = (sum - mean(sum)) * rstd * gamma + beta per row, rstd = 1 / sqrt(variance + epsilon). With null
/// mean and beta, the root-mean-square normalisation: y = sum * rstd * gamma, rstd = 1 / sqrt(mean(sum^2) + epsilon).
struct LayerNormForward {
  const float* x;               // [rows, width]
  const void* delta = nullptr;  // [rows, width] of `type`; null: sum = x
  float* sum = nullptr;         // [rows, width] x + delta, may be x; null: not written
  const float* gamma;           // [width]
  const float* beta;            // [width], or null
  void* y = nullptr;            // [rows, width] of `y_type`
  float* mean;                  // [rows], or null
  float* rstd;                  // [rows]
  int64_t rows, width;
  float epsilon = 1e-5f;
  DType type = DType::f32;  // of delta
  DType y_type = DType::f32;
};

/// dx = d_residual + the gradient of the normalisation; dgamma and dbeta are set, or added to with `accumulate`. Mean
/// and dbeta are null of the root-mean-square normalisation.
struct LayerNormBackward {
  const void* dy;                     // [rows, width] of `dy_type`
  const float* x;                     // [rows, width] the normalised sum
  const float* gamma;                 // [width]
  const float* mean;                  // [rows], or null
  const float* rstd;                  // [rows]
  const float* d_residual = nullptr;  // [rows, width]; null: none
  float* dx;                          // [rows, width], may be d_residual; null: not wanted, nor dx_typed
  void* dx_typed = nullptr;           // [rows, width] of `type`: a copy of dx as GEMM input; null: none
  float* dgamma;                      // [width]
  float* dbeta;                       // [width], or null
  int64_t rows, width;
  DType type = DType::f32;  // of dx_typed
  DType dy_type = DType::f32;
  bool accumulate = false;
};

/// y = x + delta, elementwise; y may be x.
struct ResidualAdd {
  const float* x;
  const void* delta;  // of `type`
  float* y;
  int64_t count;
  DType type = DType::f32;
};

class NormOps {
 public:
  virtual ~NormOps() = default;
  virtual void layer_norm_forward(Stream& stream, const LayerNormForward& a) = 0;
  virtual void layer_norm_backward(Stream& stream, const LayerNormBackward& a) = 0;
  virtual void residual_add(Stream& stream, const ResidualAdd& a) = 0;
};

}  // namespace amdahl

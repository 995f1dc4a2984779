// Kernels of the CUDA ops and their launches. All sums are taken in a fixed order: reruns are bit-equal.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/ops.h"

namespace amdahl {

/// Memory shared by the kernels of one stream. `counters` are zero between kernels.
struct KernelScratch {
  static constexpr int kNumCounters = 4096;
  static constexpr int64_t kPartialFloats = 1 << 18;
  static constexpr int64_t kTempFloats = 1 << 16;
  unsigned* counters = nullptr;
  float* partials = nullptr;  // kPartialFloats
  float* temp = nullptr;      // kTempFloats, for a vector that a caller needs between two launches
};

struct KernelLaunch {
  cudaStream_t stream = nullptr;
  int device_index = 0;
  int num_sms = 1;
  bool early = false;  // kernels may start before their predecessor ends: compute capability 9.0 and up
  KernelScratch scratch;
};

/// y = relu?(y + bias) in place on [batch, width]; bias and mask may be null. Fills the mask with y != 0.
void launch_bias_relu(const KernelLaunch& launch, float* y, const float* bias, bool relu, uint8_t* mask, int64_t batch,
                      int64_t width);
/// The dropout of `a` in place on a.y, filling a.mask when set.
void launch_dropout(const KernelLaunch& launch, const DenseForward& a);

void launch_mask_and_sum(const KernelLaunch& launch, const MaskAndSum& a);
/// destination[n] += source[n].
void launch_add(const KernelLaunch& launch, float* destination, const float* source, int64_t n);

void launch_mse_loss(const KernelLaunch& launch, const MseLoss& a);
void launch_cross_entropy_loss(const KernelLaunch& launch, const CrossEntropyLoss& a);
void launch_adam(const KernelLaunch& launch, const AdamStep& a);
void launch_sgd(const KernelLaunch& launch, const SgdStep& a);
void launch_set_rate(const KernelLaunch& launch, const SetRate& a);
void launch_sum_of_squares(const KernelLaunch& launch, const SumOfSquares& a);
void launch_sum_bits(const KernelLaunch& launch, const float* values, int64_t n, uint32_t* sum);
void launch_clip_scale(const KernelLaunch& launch, const ClipScale& a);
void launch_sum_arrays(const KernelLaunch& launch, const SumArrays& a);
void launch_gather_rows(const KernelLaunch& launch, const float* table, const int32_t* indices, float* out,
                        int64_t rows, int64_t width);
/// Whether launch_transpose supports a matrix: groups of four floats in both directions. `out` must be 16-byte aligned.
bool transposes(const float* in, int64_t rows, int64_t columns, int64_t stride);
/// out[columns, rows] = in^T; `in` has a row stride of `stride` floats.
void launch_transpose(const KernelLaunch& launch, const float* in, int64_t stride, float* out, int64_t rows,
                      int64_t columns);
void launch_increment(const KernelLaunch& launch, uint64_t* counter, const float* unless);

/// Loads the code of the kernels, so that it is not loaded during a capture or a measurement.
void preload_kernels(int device_index);

}  // namespace amdahl

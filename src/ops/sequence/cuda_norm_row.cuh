// One row of layer normalisation in the registers of the threads that have it.
#pragma once

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/sequence/norm_ops.h"

namespace amdahl {
namespace {

constexpr int kGroup = 8;  // elements per access: 16 bytes of a 16-bit type

/// Sums over the kRowThreads threads of a row; each thread gets the same bits. `turn` alternates between 0 and 1 from
/// call to call: a buffer is written again only after the barrier of the call between.
template <int kRowThreads>
__device__ __forceinline__ float2 row_sums(float2 value, int turn) {
  value = {warp_sum(value.x), warp_sum(value.y)};
  if constexpr (kRowThreads == kWarp) return value;
  constexpr int kWarps = kRowThreads / kWarp;
  __shared__ float2 warps[2][kWarps];
  if (threadIdx.x % kWarp == 0) warps[turn][threadIdx.x / kWarp] = value;
  __syncthreads();
  float2 total = {0, 0};
#pragma unroll
  for (int i = 0; i < kWarps; ++i) total.x += warps[turn][i].x, total.y += warps[turn][i].y;
  return total;
}

/// Stores a row of x + delta, its mean and rstd, and the normalised row. `x`: group c of a thread begins at column
/// (c kRowThreads + lane) kVec; zeros after the last column. Called by the kRowThreads threads of the row, which share
/// their block's barrier if they are more than a warp.
template <class Y, int kRowThreads, int kChunks, int kVec>
__device__ __forceinline__ void normalise_row(const LayerNormForward& a, int64_t row, int lane,
                                              Floats<kVec> (&x)[kChunks]) {
  const int64_t at = row * a.width;
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int64_t column = (static_cast<int64_t>(c) * kRowThreads + lane) * kVec;
    if (column >= a.width) continue;
    if (a.sum) store_floats(a.sum + at + column, x[c]);
#pragma unroll
    for (int i = 0; i < kVec; ++i) sum += x[c].v[i];
  }
  const float mean = a.mean ? row_sums<kRowThreads>({sum, 0}, 0).x / static_cast<float>(a.width) : 0.0f;
  float squares = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if ((static_cast<int64_t>(c) * kRowThreads + lane) * kVec >= a.width) continue;
#pragma unroll
    for (int i = 0; i < kVec; ++i) squares += (x[c].v[i] - mean) * (x[c].v[i] - mean);
  }
  const float variance = row_sums<kRowThreads>({squares, 0}, 1).x / static_cast<float>(a.width);
  const float rstd = 1.0f / sqrtf(variance + a.epsilon);
  if (lane == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  if (!a.y) return;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int64_t column = (static_cast<int64_t>(c) * kRowThreads + lane) * kVec;
    if (column >= a.width) continue;
    const Floats<kVec> gamma = load_floats<kVec>(a.gamma + column);
    Floats<kVec> beta = {};
    if (a.beta) beta = load_floats<kVec>(a.beta + column);
#pragma unroll
    for (int i = 0; i < kVec; ++i) x[c].v[i] = (x[c].v[i] - mean) * rstd * gamma.v[i] + beta.v[i];
    store_floats(static_cast<Y*>(a.y) + at + column, x[c]);
  }
}

}  // namespace
}  // namespace amdahl

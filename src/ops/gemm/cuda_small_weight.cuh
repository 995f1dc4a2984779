// Device code of the weight gradient of a dense layer with few rows: dw[O,I] = dy[B,O]^T x[B,I], written to memory or
// consumed by a fused Adam step.
#pragma once

#include "ops/gemm/cuda_small.h"
#include "ops/gemm/cuda_small_launch.cuh"
#include "ops/optimizer/cuda_adam.cuh"

namespace amdahl {

struct BackwardArguments {
  const float *dy, *x, *w, *activation;
  float *dw, *dw_sums, *dx, *dx_sums;
  int batch, in, out, dy_stride;
  float scale;
  bool accumulate_weight, accumulate_input;
  int input_blocks;   // the first blocks of the grid compute dx; a multiple of the cluster size
  bool split_weight;  // dw by weight_gradient_split, else weight_gradient_staged
  int blocks_i;       // blocks along dw's columns
};

template <bool kVector>
__device__ __forceinline__ Quad load_unit(const float* row, int column, int width) {
  if constexpr (kVector) return load_quad(row + min(column, width - 4));
  Quad q = {};
  for (int i = 0; i < 4; ++i)
    if (column + i < width) q.v[i] = row[column + i];
  return q;
}

__device__ __forceinline__ float4 as_float4(const Quad& q) { return make_float4(q.v[0], q.v[1], q.v[2], q.v[3]); }

template <bool kVector>
__device__ __forceinline__ void store_unit(float* row, int column, int width, const float4& value) {
  if constexpr (kVector) {
    *reinterpret_cast<float4*>(row + column) = value;
    return;
  }
  const float v[4] = {value.x, value.y, value.z, value.w};
  for (int i = 0; i < 4; ++i)
    if (column + i < width) row[column + i] = v[i];
}

template <bool kVectorI>
__device__ __forceinline__ void store_weights(const BackwardArguments& a, int o, int column, float4 v) {
  float* row = a.dw + static_cast<int64_t>(o) * a.in;
  if (a.accumulate_weight) add_to(v, as_float4(load_unit<kVectorI>(row, column, a.in)));
  store_unit<kVectorI>(row, column, a.in, v);
}

/// Consumers of finished elements of dw: StoreWeights writes them to memory, UpdateWeights applies an Adam step.
struct StoreWeights {
  const BackwardArguments& a;
  __device__ __forceinline__ void operator()(int o, const int (&columns)[2], const float4 (&values)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (columns[half] < a.in) store_weights<true>(a, o, columns[half], values[half]);
  }
};

struct UpdateArguments {
  float *params, *m, *v;  // of the weights [O,I]
  AdamParameters adam;
};

struct UpdateWeights {
  const UpdateArguments& to;
  int in;
  AdamRule rule;
  __device__ __forceinline__ void operator()(int o, const int (&columns)[2], const float4 (&values)[2]) const {
    float4 w[2], m[2], v[2];
    const int64_t row = static_cast<int64_t>(o) * in;
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // all loads before the first use
      const int64_t at = row + min(columns[half], in - 4);
      w[half] = *reinterpret_cast<const float4*>(to.params + at);
      m[half] = __ldcs(reinterpret_cast<const float4*>(to.m + at));
      v[half] = __ldcs(reinterpret_cast<const float4*>(to.v + at));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (columns[half] >= in) continue;
      const int64_t at = row + columns[half];
      rule(w[half], values[half], m[half], v[half], rule.keep(to.adam, at));
      *reinterpret_cast<float4*>(to.params + at) = w[half];
      __stcs(reinterpret_cast<float4*>(to.m + at), m[half]);
      __stcs(reinterpret_cast<float4*>(to.v + at), v[half]);
    }
  }
};

/// Stores one row of a warp's sums, of which the lane holds column groups 2t and 2t + 1. Called by whole warps.
template <class Store>
__device__ __forceinline__ void store_weight_row(const BackwardArguments& a, const Store& store, const float (&c)[4][4],
                                                 int high, int o, int first, int t) {
  const bool odd = t % 2 != 0;  // neighbouring lanes exchange groups, so that each store fills 32-byte sectors
  float v[2][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float left = c[j][2 * high], right = c[j][2 * high + 1];
    const float swapped = __shfl_xor_sync(0xffffffffu, odd ? left : right, 1);
    v[0][j] = odd ? swapped : left;
    v[1][j] = odd ? right : swapped;
  }
  if (o >= a.out) return;
  const int column = first + 16 * (t / 2) + 4 * (t % 2);
  store(o, {column, column + 8},
        {make_float4(v[0][0], v[0][1], v[0][2], v[0][3]), make_float4(v[1][0], v[1][1], v[1][2], v[1][3])});
}

/// dbias[o]: the sum of column o of dy.
__device__ __forceinline__ void sum_dy(const BackwardArguments& a, int o) {
  if (o >= a.out) return;
  float sum = 0;
#pragma unroll 8
  for (int row = 0; row < a.batch; ++row) sum += a.dy[row * a.dy_stride + o];
  a.dw_sums[o] = sum + (a.accumulate_weight ? a.dw_sums[o] : 0.0f);
}

inline constexpr int kSplitO = 64, kSplitI = 32;  // of dw, per block

/// dw of layers that are too small to fill the GPU with blocks of weight_gradient_staged, or of odd widths. A block
/// computes 64 by 32; each of its warps handles 16 rows of the batch.
template <MathMode kMath, bool kVectorO, bool kVectorI>
__device__ __forceinline__ void weight_gradient_split(const BackwardArguments& a, float* partials) {
  using T = Tile<64>;
  const int block = static_cast<int>(blockIdx.x) - a.input_blocks, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_o = block / a.blocks_i * kSplitO, first_i = block % a.blocks_i * kSplitI;
  if (first_o >= a.out) return;
  const int own_o = first_o + warp % T::kWarpsM * 32, k = warp / T::kWarpsM * 16;
  Sums<2> sums;
  if (own_o < a.out && k < a.batch) {
    AcrossK<true, kVectorO> dy(a.dy, a.dy_stride, own_o, a.out, k, a.batch, lane);
    AcrossK<true, kVectorI> x(a.x, a.in, first_i, a.in, k, a.batch, lane);
    sum_chunks<kMath, 16>(sums, dy, x, k + 16 <= a.batch ? 1 : 0, k + 16 > a.batch, [] {});
  }
  store_sums<T, kVectorI, kVectorO>(partials, sums);
  if (a.dw_sums && first_i == 0 && threadIdx.x < kSplitO) sum_dy(a, first_o + static_cast<int>(threadIdx.x));
  __syncthreads();
#pragma unroll 1
  for (int unit = static_cast<int>(threadIdx.x); unit < T::kUnits; unit += kTileThreads) {
    const UnitPlace at = unit_place<T, false>(unit);
    if (first_o + at.row < a.out && first_i + at.column < a.in)
      store_weights<kVectorI>(a, first_o + at.row, first_i + at.column, sum_warps<T>(partials, at));
  }
}

inline constexpr int kStagedO = 128, kStagedI = 64;                     // of dw, per block
inline constexpr int kStrideO = kStagedO + 8, kStrideI = kStagedI + 8;  // row strides, floats: rows start 8 banks apart
inline constexpr int kStagedFloats = kSmallRows * (kStrideO + kStrideI);

/// Starts copying kColumns columns of a batch of rows into shared memory; rows past the batch become zeros, columns
/// past the end repeat valid ones.
template <int kColumns, int kStride>
__device__ __forceinline__ void stage(float* to, const float* matrix, int stride, int batch, int rows, int first,
                                      int width) {
  constexpr int kUnits = kColumns / 4;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < rows * kUnits; i += kTileThreads) {
    const int row = i / kUnits, column = i % kUnits * 4;
    const uint32_t at = shared_address(to + row * kStride + column);
    const float* from = matrix + min(row, batch - 1) * stride + min(first + column, width - 4);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(row < batch ? 16 : 0)
                 : "memory");
  }
}

/// dw[O,I] = dy[B,O]^T x[B,I]: k is the batch. A block computes 128 by 64, each of its warps 32 by 32.
template <MathMode kMath, class Store>
__device__ __forceinline__ void weight_gradient_staged(const BackwardArguments& a, const Store& store, float* shared) {
  const int block = static_cast<int>(blockIdx.x) - a.input_blocks, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_o = block / a.blocks_i * kStagedO, first_i = block % a.blocks_i * kStagedI;
  if (first_o >= a.out) return;
  const int rows = (a.batch + 15) / 16 * 16, own_o = warp % 4 * 32, own_i = warp / 4 * 32;
  float *dy = shared, *x = shared + kSmallRows * kStrideO;
  stage<kStagedO, kStrideO>(dy, a.dy, a.dy_stride, a.batch, rows, first_o, a.out);
  stage<kStagedI, kStrideI>(x, a.x, a.in, a.batch, rows, first_i, a.in);
  if (a.dw_sums && first_i == 0 && threadIdx.x < kStagedO) sum_dy(a, first_o + static_cast<int>(threadIdx.x));
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  if (first_o + own_o >= a.out || first_i + own_i >= a.in) return;
  Sums<2> sums;
#pragma unroll 1
  for (int k = lane % 4; k < rows; k += 16) {
    Chunk<2> chunk;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // lanes t read neighbouring rows: no bank conflicts
      chunk.a[i] = load_quad(dy + (k + 4 * i) * kStrideO + own_o + lane / 4 * 4);
      chunk.b[i] = load_quad(x + (k + 4 * i) * kStrideI + own_i + lane / 4 * 4);
    }
    multiply_chunk<kMath, AcrossK<true, true>, AcrossK<true, true>>(sums, chunk);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    store_weight_row(a, store, sums.c[j / 2], j % 2, first_o + own_o + column_of<true>(lane / 4, j), first_i + own_i,
                     lane % 4);
}

}  // namespace amdahl

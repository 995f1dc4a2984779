// Device code on the 16 rows of a warp in attention: reductions along rows, and storing them.
#pragma once

#include "ops/cuda_attention_math.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

inline constexpr int kWarpRows16 = 16;

/// Writes a warp's sums [16, width], scaled, to rows `first` and following of a matrix, by way of the warp's rows in
/// shared memory, which nobody reads any more. Called by whole warps.
template <class Math, int kWidth>
__device__ __forceinline__ void store_rows(typename Math::Element* rows, const float (&sums)[kWidth / 8][4],
                                           const float (&factors)[2], typename Math::Element* matrix, int64_t stride,
                                           int first, int steps, int width) {
  using Element = typename Math::Element;
  constexpr int kStride = kWidth + kRowPad, kPer16 = 16 / static_cast<int>(sizeof(Element)), kChunks = kWidth / kPer16;
  const int lane = threadIdx.x % kWarp;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rows[Math::own_row(lane, i / 2) * kStride + Math::out_column(lane, j, i % 2)] =
          to_element<Element>(sums[j][i] * factors[i / 2]);
  __syncwarp();
#pragma unroll 4
  for (int index = lane; index < kWarpRows16 * kChunks; index += kWarp) {
    const int row = index / kChunks, column = index % kChunks * kPer16;
    if (first + row < steps && column < width)
      *reinterpret_cast<uint4*>(matrix + (first + row) * stride + column) =
          *reinterpret_cast<const uint4*>(rows + row * kStride + column);
  }
}

/// Sum or maximum over the four lanes that have the same row slots.
__device__ __forceinline__ float sum_of_row(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}
__device__ __forceinline__ float max_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

}  // namespace amdahl

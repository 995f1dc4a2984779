// Device code and launch shapes that attention's kernels share: tiles of rows in shared memory.
//
// A block has 64 rows of its own, queries or keys of one head, 16 per warp, and passes over tiles of the other kind.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "ops/attention/cuda_attention.h"
#include "ops/attention/cuda_attention_math.cuh"
#include "ops/cuda_exp2.cuh"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

inline constexpr int kOwnRows = 64, kWarpRows16 = 16, kAttentionThreads = 128;

/// Sizes of the tiles of a head width, which is padded with zeros to kWidth.
template <class Math, int kWidth>
struct AttentionTile {
  using Element = typename Math::Element;
  static constexpr int kStride = kWidth + kRowPad;  // elements between rows
  static constexpr int kRows = Math::kTile(kWidth), kN = kRows / 8;
  static constexpr int kOwnElements = kOwnRows * kStride, kTileElements = kRows * kStride;
};

/// The problem as the kernels see it. Rows of q, k, v and of their gradients are `qkv_stride` elements apart, rows of
/// out and d_out `out_stride`. kDocuments: rows of the batch have several documents, whose `starts` bound the keys.
template <bool kDocuments>
struct AttentionPlace {
  int steps, heads, key_heads, group, width;
  int64_t qkv_stride, out_stride;
  bool causal;
  int window;               // far more than the steps: none
  const int32_t* starts;    // AttentionShape::starts, with documents
  float scale, scale_log2;  // 1 / sqrt(width); times log2(e)

  /// Offset of the first row of a head of q in the block's row of the batch.
  __device__ __forceinline__ int64_t query_offset(int head) const {
    return static_cast<int64_t>(blockIdx.z) * steps * qkv_stride + static_cast<int64_t>(head) * width;
  }
  /// The same of a head of k (part 0) or v (part 1).
  __device__ __forceinline__ int64_t key_offset(int part, int head) const {
    return query_offset(heads + part * key_heads + head);
  }
  __device__ __forceinline__ int64_t out_offset(int head) const {
    return static_cast<int64_t>(blockIdx.z) * steps * out_stride + static_cast<int64_t>(head) * width;
  }
  /// Offset of the first step of a head in [batch, heads, steps].
  __device__ __forceinline__ int64_t row_offset(int head) const {
    return (static_cast<int64_t>(blockIdx.z) * heads + head) * steps;
  }
  /// The first key that a query attends to; grows with the query.
  __device__ __forceinline__ int first_key(int query) const {
    int start = 0;
    if constexpr (kDocuments) start = starts[static_cast<int64_t>(blockIdx.z) * steps + min(query, steps - 1)];
    return max(query - window + 1, start);
  }
  /// Without documents the window says the first key, in fewer registers.
  __device__ __forceinline__ bool attends(int query, int key, int first_key_of_query) const {
    return (!causal || key <= query) && key >= (kDocuments ? first_key_of_query : query - window + 1);
  }
  /// The query behind the last one that attends to a key.
  __device__ __forceinline__ int end_query(int key) const {
    int end = min(steps, key + window);
    if constexpr (kDocuments)
      for (int low = key; low < end;) {
        const int middle = (low + end) / 2;
        first_key(middle) <= key ? low = middle + 1 : end = middle;
      }
    return end;
  }
};

template <bool kDocuments>
AttentionPlace<kDocuments> place_of(const AttentionShape& s) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  constexpr int kNoWindow = 1 << 30;
  return {static_cast<int>(s.steps),
          static_cast<int>(s.heads),
          static_cast<int>(s.key_heads()),
          static_cast<int>(s.group()),
          static_cast<int>(s.head_width),
          s.packed_width(),
          s.query_width(),
          s.causal,
          s.window > 0 ? static_cast<int>(s.window) : kNoWindow,
          s.starts,
          scale,
          scale * kLog2E};
}

/// Starts copying kRows rows from `first` on into a tile; rows past the steps and columns past the width become zeros.
template <int kWidth, int kRows, class Element>
__device__ __forceinline__ void copy_rows(Element* tile, const Element* matrix, int64_t stride, int first, int steps,
                                          int width) {
  constexpr int kPer16 = 16 / static_cast<int>(sizeof(Element)), kChunks = kWidth / kPer16;
#pragma unroll
  for (int i = 0; i < kRows * kChunks / kAttentionThreads; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * kAttentionThreads, row = index / kChunks;
    const int column = index % kChunks * kPer16;
    const bool inside = first + row < steps && column < width;
    const Element* from = inside ? matrix + (first + row) * stride + column : matrix;
    copy16(tile + row * (kWidth + kRowPad) + column, from, inside);
  }
}

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

/// Number of tiles of kTile keys that queries up to `last` attend to.
template <bool kDocuments>
__device__ __forceinline__ int key_tiles(const AttentionPlace<kDocuments>& p, int last, int tile) {
  const int keys = p.causal ? min(last + 1, p.steps) : p.steps;
  return (keys + tile - 1) / tile;
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

/// Calls use(Math{}, width, documents) with the products of the type and mode, and the padded head width and whether
/// there are documents as constants.
template <class Use>
void with_attention(const AttentionShape& s, MathMode math, const Use& use) {
  const auto with_documents = [&](auto products, auto width) {
    s.starts ? use(products, width, std::true_type{}) : use(products, width, std::false_type{});
  };
  const auto with_width = [&](auto products) {
    if (s.head_width <= 32) return with_documents(products, std::integral_constant<int, 32>{});
    if (s.head_width <= 64) return with_documents(products, std::integral_constant<int, 64>{});
    with_documents(products, std::integral_constant<int, 128>{});
  };
  if (s.type == DType::bf16) return with_width(HalfMath<__nv_bfloat16>{});
  if (s.type == DType::f16) return with_width(HalfMath<__half>{});
  math == MathMode::fp32 ? with_width(FloatMath<true>{}) : with_width(FloatMath<false>{});
}

inline void check_attention(const AttentionShape& s, std::initializer_list<const void*> pointers) {
  if (s.head_width < 8 || s.head_width > kMostHeadWidth || s.head_width % 8 != 0)
    throw Error(Cause::usage, "attention with heads of width " + std::to_string(s.head_width) + " on a GPU",
                "heads whose width is a multiple of 8 up to " + std::to_string(kMostHeadWidth));
  if (!std::all_of(pointers.begin(), pointers.end(), aligned16))
    throw Error(Cause::internal, "attention: arrays that are not 16-byte aligned");
}

/// Blocks of own rows by heads by batch.
inline dim3 attention_blocks(const AttentionShape& s, int64_t heads) {
  return dim3(num_blocks(s.steps, kOwnRows), static_cast<unsigned>(heads), static_cast<unsigned>(s.batch));
}

/// Launches a kernel with more shared memory than the default limit.
template <class... Parameters, class... Arguments>
void launch_attention_kernel(const KernelLaunch& launch, dim3 blocks, size_t shared_bytes,
                             void (*kernel)(Parameters...), const char* name, Arguments... arguments) {
  cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)),
             launch.device_index, "cudaFuncSetAttribute");
  launch_early_shared(launch, {blocks, kAttentionThreads, shared_bytes}, kernel, name, arguments...);
}

}  // namespace amdahl

// Device code of grouped weight gradients: one launch computes several products dw[out,in] = dy[tokens,out]^T
// x[tokens,in] and the sums of dy's columns.
//
// A cluster computes one tile of one dw. Its blocks divide the tokens, and add their partial tiles through distributed
// shared memory in the order of their ranks: reruns are bit-equal. A last part of the grid finishes column sums whose
// partial sums other kernels left in memory.
//
// Floor: L2. A tile reads (kOut + kIn) elements per token, so the weights of a transformer block of width 192, in
// 24 tiles, read 42 MB in bf16 for 3,072 tokens, about 8 us of an H100; the tensor cores need 3 to 5.
#pragma once

#include "ops/cuda_block_products.cuh"
#include "ops/transformer_block_ops.h"

namespace amdahl {

inline constexpr int kWeightTileOut = 96, kWeightTileIn = 192, kMostWeightBlocks = 8;  // blocks: of a cluster

/// Tiles of a product, and of all.
__host__ __device__ constexpr int weight_tiles(const WeightProduct& p) {
  return (p.out + kWeightTileOut - 1) / kWeightTileOut * ((p.in + kWeightTileIn - 1) / kWeightTileIn);
}
__host__ __device__ constexpr int weight_tiles(const WeightGradients& a) {
  int tiles = 0;
  for (int i = 0; i < a.num_products; ++i) tiles += weight_tiles(a.products[i]);
  return tiles;
}

/// Sizes of a block's tile. A stage holds kTokens rows of dy and of x.
template <class Element>
struct WeightTile {
  static constexpr int kOut = kWeightTileOut, kIn = kWeightTileIn;
  static constexpr int kWarps = 8, kThreads = 32 * kWarps, kWarpsOut = 2, kWarpsIn = 4;
  static constexpr int kRowTiles = kOut / kWarpsOut / 16, kColumnTiles = kIn / kWarpsIn / 8;  // of mma, per warp
  static constexpr int kPer16 = 16 / static_cast<int>(sizeof(Element));                       // elements of a copy
  static constexpr int kTokens = 4 * kPer16, kStages = 4;
  static constexpr int kBlocksPerSm = sizeof(Element) == 2 ? 2 : 1;  // as registers allow
  static constexpr int kInThreads = 192, kOutThreads = 48;           // that copy x, and dy
  static constexpr int kPad = 8;  // neither ldmatrix nor 32-bit loads of a fragment have bank conflicts
  static constexpr int kOutStride = kOut + kPad, kInStride = kIn + kPad;
  static constexpr int kStageElements = kTokens * (kOutStride + kInStride);
  static constexpr int kStageBytes = kStages * kStageElements * static_cast<int>(sizeof(Element));
  // The partial tile takes the place of the stages.
  static constexpr int kSumStride = kIn + kPad;
  static constexpr int kSumBytes = (kOut * kSumStride + kOut) * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = kStageBytes > kSumBytes ? kStageBytes : kSumBytes;
};

/// What a block computes: a tile of a product, from stages [begin, end) of the tokens.
struct WeightPlace {
  const WeightProduct& product;
  int first_out, first_in;
  int begin, end;
};

template <class T>
__device__ __forceinline__ WeightPlace weight_place(const WeightGradients& a, int tile, const ClusterPlace& cluster) {
  int index = 0;
  while (tile >= weight_tiles(a.products[index])) tile -= weight_tiles(a.products[index++]);
  const WeightProduct& product = a.products[index];
  const int across = (product.in + T::kIn - 1) / T::kIn, stages = (a.tokens + T::kTokens - 1) / T::kTokens;
  return {product, tile / across * T::kOut, tile % across * T::kIn, cluster.rank * stages / cluster.size,
          (cluster.rank + 1) * stages / cluster.size};
}

/// Starts copying kColumns columns of a stage's rows, by kThreads threads of which each has the same 16 bytes of every
/// kStep-th row. Rows and columns past the end become zeros.
template <class T, int kColumns, int kThreads, class Element>
__device__ __forceinline__ void copy_columns(Element* to, const void* matrix, int thread, int first_token, int tokens,
                                             int first_column, int width) {
  constexpr int kCopies = kColumns / T::kPer16, kStep = kThreads / kCopies, kStride = kColumns + T::kPad;
  static_assert(kThreads % kCopies == 0 && T::kTokens % kStep == 0, "all threads copy equally much");
  const int row = thread / kCopies, column = thread % kCopies * T::kPer16;
  const auto* from = static_cast<const Element*>(matrix) + first_column + column;
#pragma unroll
  for (int r = row; r < T::kTokens + row; r += kStep) {
    const bool inside = first_token + r < tokens && first_column + column < width;
    copy16(to + r * kStride + column, inside ? from + static_cast<int64_t>(first_token + r) * width : matrix, inside);
  }
}

/// Starts copying a stage: some warps copy x, the others dy.
template <class T, class Element>
__device__ __forceinline__ void copy_weight_stage(Element* stage, const WeightPlace& p, int number, int tokens) {
  const int thread = static_cast<int>(threadIdx.x), first = number * T::kTokens;
  if (thread < T::kInThreads)
    copy_columns<T, T::kIn, T::kInThreads>(stage + T::kTokens * T::kOutStride, p.product.x, thread, first, tokens,
                                           p.first_in, p.product.in);
  else if (thread < T::kInThreads + T::kOutThreads)
    copy_columns<T, T::kOut, T::kOutThreads>(stage, p.product.dy, thread - T::kInThreads, first, tokens, p.first_out,
                                             p.product.out);
}

/// A warp's sums: its part of the tile, and of the sums of dy's columns, which are the product of dy^T with ones.
template <class T>
struct WeightSums {
  float tile[T::kRowTiles][T::kColumnTiles][4] = {};
  float columns[T::kRowTiles][4] = {};
};

/// Adds the sums over the k of a stage of dy's columns, as its product with ones.
template <class T, class Element>
__device__ __forceinline__ void add_column_sums(WeightSums<T>& sums, const Element* dy) {
  const uint32_t ones = pack_pair<Element>(1.0f, 1.0f);
#pragma unroll
  for (int k = 0; k < T::kTokens; k += 16)
#pragma unroll
    for (int i = 0; i < T::kRowTiles; ++i) {
      uint32_t a[4];
      BlockProducts<Element>::template load_a<Stored::across_k>(a, dy + k * T::kOutStride + 16 * i, T::kOutStride);
      mma_half<Element>(sums.columns[i], a, ones, ones);
    }
}

/// f32: a product of what tf32 keeps of dy, and one of the rest.
template <class T>
__device__ __forceinline__ void add_column_sums(WeightSums<T>& sums, const float* dy) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t one = __float_as_uint(1.0f);
#pragma unroll
  for (int k = 0; k < T::kTokens; k += 8)
#pragma unroll
    for (int i = 0; i < T::kRowTiles; ++i) {
      uint32_t high[4], low[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float value = dy[(k + lane % 4 + e / 2 * 4) * T::kOutStride + 16 * i + lane / 4 + e % 2 * 8];
        high[e] = __float_as_uint(value) & 0xffffe000u;
        low[e] = __float_as_uint(value - __uint_as_float(high[e]));
      }
      mma_tf32(sums.columns[i], high, one, one);
      mma_tf32(sums.columns[i], low, one, one);
    }
}

/// The block's partial tile, from stages [begin, end): the next ones are copied meanwhile.
template <class T, class Element>
__device__ __forceinline__ void sum_weight_stages(WeightSums<T>& sums, Element* stages, const WeightPlace& p,
                                                  int tokens) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int own_out = warp / T::kWarpsIn * (T::kOut / T::kWarpsOut),
            own_in = warp % T::kWarpsIn * (T::kIn / T::kWarpsIn);
  const bool sums_columns = p.product.dbias && p.first_in == 0 && own_in == 0;
  const auto copy_stage = [&](int number) {
    if (number < p.end) copy_weight_stage<T>(stages + number % T::kStages * T::kStageElements, p, number, tokens);
    commit_copies();
  };
  for (int ahead = 0; ahead < T::kStages - 1; ++ahead) copy_stage(p.begin + ahead);
  for (int number = p.begin; number < p.end; ++number) {
    wait_for_copies<T::kStages - 2>();
    __syncthreads();  // the copies of all threads have arrived, and nobody reads the stage before this one any more
    copy_stage(number + T::kStages - 1);
    const Element* dy = stages + number % T::kStages * T::kStageElements + own_out;
    const Element* x = stages + number % T::kStages * T::kStageElements + T::kTokens * T::kOutStride + own_in;
    multiply_matrices<Element>(sums.tile, Operand<Element, Stored::across_k>{dy, T::kOutStride},
                               Operand<Element, Stored::across_k>{x, T::kInStride}, 0, T::kTokens);
    if (sums_columns) add_column_sums(sums, dy);
  }
  wait_for_copies<0>();
  __syncthreads();
}

/// Writes the warps' sums to shared memory as a matrix [kOut, kIn] and, behind it, the column sums.
template <class T>
__device__ __forceinline__ void store_weight_sums(float* matrix, const WeightSums<T>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int own_out = warp / T::kWarpsIn * (T::kOut / T::kWarpsOut) + lane / 4;
  const int own_in = warp % T::kWarpsIn * (T::kIn / T::kWarpsIn) + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < T::kRowTiles; ++i)
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      const int row = own_out + 16 * i + 8 * high;
#pragma unroll
      for (int j = 0; j < T::kColumnTiles; ++j)
        *reinterpret_cast<float2*>(matrix + row * T::kSumStride + own_in + 8 * j) =
            make_float2(sums.tile[i][j][2 * high], sums.tile[i][j][2 * high + 1]);
      if (own_in == 0) matrix[T::kOut * T::kSumStride + row] = sums.columns[i][2 * high];
    }
}

/// Sums of four neighbouring values over the blocks of the cluster, in the order of ranks.
__device__ __forceinline__ float4 sum_over_cluster(const float* place, const ClusterPlace& cluster) {
  float4 parts[kMostWeightBlocks];
#pragma unroll
  for (int rank = 0; rank < kMostWeightBlocks; ++rank)  // all loads before the first use
    if (rank < cluster.size) parts[rank] = *reinterpret_cast<const float4*>(peer_pointer(place, rank));
  float4 sum = parts[0];
#pragma unroll
  for (int rank = 1; rank < kMostWeightBlocks; ++rank)
    if (rank < cluster.size)
      sum.x += parts[rank].x, sum.y += parts[rank].y, sum.z += parts[rank].z, sum.w += parts[rank].w;
  return sum;
}

__device__ __forceinline__ void store_or_add(float* to, float4 value, bool accumulate) {
  auto* place = reinterpret_cast<float4*>(to);
  if (accumulate) {
    const float4 old = *place;
    value.x += old.x, value.y += old.y, value.z += old.z, value.w += old.w;
  }
  *place = value;
}

/// Writes this block's share of the cluster's tile.
template <class T>
__device__ __forceinline__ void finish_weight_tile(const float* matrix, const WeightPlace& p,
                                                   const ClusterPlace& cluster, bool accumulate) {
  constexpr int kRowUnits = T::kIn / 4, kUnits = T::kOut * kRowUnits;
  const int end = (cluster.rank + 1) * kUnits / cluster.size, thread = static_cast<int>(threadIdx.x);
  for (int unit = cluster.rank * kUnits / cluster.size + thread; unit < end; unit += T::kThreads) {
    const int row = unit / kRowUnits, column = unit % kRowUnits * 4, out = p.first_out + row, in = p.first_in + column;
    if (out >= p.product.out || in >= p.product.in) continue;
    store_or_add(p.product.dw + static_cast<int64_t>(out) * p.product.in + in,
                 sum_over_cluster(matrix + row * T::kSumStride + column, cluster), accumulate);
  }
  const int out = p.first_out + 4 * thread;
  if (!p.product.dbias || p.first_in > 0 || cluster.rank > 0 || thread >= T::kOut / 4 || out >= p.product.out) return;
  store_or_add(p.product.dbias + out, sum_over_cluster(matrix + T::kOut * T::kSumStride + 4 * thread, cluster),
               accumulate);
}

/// Adds the rows of a matrix of partial sums [parts, columns], 32 columns per block.
template <class T>
__device__ __forceinline__ void finish_column_sums(const WeightGradients& a, float* shared, int first_column) {
  constexpr int kSlices = T::kThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, slice = static_cast<int>(threadIdx.x) / 32;
  const int columns = kColumnResults * a.result_width, column = first_column + lane;
  float sum = 0;
  if (column < columns)
    for (int part = slice; part < a.parts; part += kSlices)
      sum += a.partials[static_cast<int64_t>(part) * columns + column];
  shared[slice * 32 + lane] = sum;
  __syncthreads();
  if (slice > 0 || column >= columns) return;
  float total = 0;
  for (int i = 0; i < kSlices; ++i) total += shared[i * 32 + lane];
  float* const out = a.results[column / a.result_width] + column % a.result_width;
  *out = total + (a.accumulate ? *out : 0.0f);
}

/// Body of the kernel; its shared memory is WeightTile<Element>::kSharedBytes.
template <class Element>
__device__ __forceinline__ void block_weights_body(const WeightGradients& a, std::byte* shared) {
  using T = WeightTile<Element>;
  const ClusterPlace cluster = cluster_place();
  const int tile = static_cast<int>(blockIdx.x) / cluster.size, tiles = weight_tiles(a);
  auto* const matrix = reinterpret_cast<float*>(shared);
  if (tile >= tiles)
    return finish_column_sums<T>(a, matrix, (static_cast<int>(blockIdx.x) - tiles * cluster.size) * 32);
  const WeightPlace place = weight_place<T>(a, tile, cluster);
  WeightSums<T> sums;
  sum_weight_stages<T>(sums, reinterpret_cast<Element*>(shared), place, a.tokens);
  store_weight_sums<T>(matrix, sums);
  arrive_at_peers();
  wait_for_peers();
  finish_weight_tile<T>(matrix, place, cluster, a.accumulate);
  arrive_at_peers();  // no block leaves while others read its memory
  wait_for_peers();
}

}  // namespace amdahl

// Device code of the forward pass of a small pre-norm transformer block.
//
// A cluster of kHeads blocks computes one sequence. Block r computes head r, and of every other product the columns
// that belong to it: 64 of the residual stream, 256 hidden units. What its peers need of these is kept in global memory
// for backward anyway, so a block writes its columns there, the cluster meets at a barrier, and every block reads whole
// rows from L2:
//
//   norm1 (each block for itself) -> qkv -> attention | out -> middle | norm2 (each block for itself) -> up, GELU |
//   down
//
// with barriers of the cluster at |. Each product has its whole k in one block, so its sums are rounded once, as those
// of the separate operations, and no block touches the shared memory of another.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/cuda_attention_rows.cuh"
#include "ops/cuda_block_tile.cuh"
#include "ops/cuda_exp2.cuh"
#include "ops/cuda_gelu.cuh"
#include "ops/transformer_block_ops.h"

namespace amdahl {

/// Sizes of the kernel for elements T, heads, and 16 * kRowTiles rows of a sequence. Row tiles without steps are
/// computed too, so that no instruction depends on the number of steps.
template <class T, int kNumHeads, int kNumRowTiles>
struct BlockForwardSizes {
  using Element = T;
  static constexpr int kHeads = kNumHeads, kRowTiles = kNumRowTiles, kRows = 16 * kRowTiles;
  static constexpr int kWidth = kHeads * kBlockHeadWidth, kHidden = 4 * kWidth, kOwnHidden = 4 * kBlockHeadWidth;
  static constexpr int kChunk = 512 / static_cast<int>(sizeof(T));  // hidden units in shared memory at a time

  // How the warps divide the products. With more rows, sums of all hidden units at once would not fit the registers.
  static constexpr int kUpPasses = kRowTiles > 6 ? 2 : 1, kPassUnits = kOwnHidden / kUpPasses;
  using QkvTile = WarpTile<kRows, 2, 3>;
  using OwnTile = WarpTile<kRows, 2, 1>;  // of the residual stream's own columns
  using UpTile = WarpTile<kRows, 1, 2 / kUpPasses>;
  static_assert(QkvTile::kFeatures == 3 * kBlockHeadWidth && OwnTile::kFeatures == kBlockHeadWidth &&
                UpTile::kFeatures == kPassUnits);
  /// Steps of k that the out product loads beforehand: all of them, or as far as registers last.
  static constexpr int kOutAhead = kRowTiles > 6 ? 2 : sizeof(T) == 2 ? kWidth / kStepElements<T> : 4;

  // What is in shared memory at a time: the input of a product and sums of hidden units; or q, k, v; or two chunks of
  // GELU's results.
  static constexpr int kInputStride = row_stride<T>(kWidth), kChunkStride = row_stride<T>(kChunk);
  static constexpr int kHeadStride = kBlockHeadWidth + kRowPad, kSumStride = kPassUnits + 4;
  static constexpr int kInputBytes = kRows * kInputStride * static_cast<int>(sizeof(T));
  static constexpr int kSharedBytes = std::max({kInputBytes + kRows * kSumStride * static_cast<int>(sizeof(float)),
                                                3 * kRows* kHeadStride* static_cast<int>(sizeof(T)),
                                                2 * kRows* kChunkStride* static_cast<int>(sizeof(T))});
};

/// This block's place: its rank is its head.
struct BlockPlace {
  int rank, sequence;
  int64_t first_token;
};

/// y = layer_norm(x) of all rows of a sequence, a warp per row, into shared memory; rows past the steps become zeros.
/// Of every kHeads rows the block also stores one in global memory, as its peers store the others.
template <class S>
__device__ __forceinline__ void normalise_rows(const BlockForward& a, const BlockPlace& place, const float* x,
                                               const float* gamma, const float* beta, void* kept, float* mean,
                                               float* rstd, typename S::Element* to) {
  using T = typename S::Element;
  constexpr int kTogether = S::kRowTiles > 6 ? 2 : 4;  // rows whose loads are under way, as far as registers last
  constexpr float kShare = 1.0f / S::kWidth;
  static_assert(S::kRows % (kTogether * kBlockWarps) == 0, "warps have equally many rows");
  const int lane = lane_index(), warp = warp_index();
  Floats<2> scale[S::kHeads], shift[S::kHeads];
#pragma unroll
  for (int s = 0; s < S::kHeads; ++s) {
    scale[s] = load_floats<2>(gamma + 64 * s + 2 * lane);
    shift[s] = load_floats<2>(beta + 64 * s + 2 * lane);
  }
  x += (place.first_token + warp) * S::kWidth + 2 * lane;
  to += warp * S::kInputStride + 2 * lane;
  T* to_keep = static_cast<T*>(kept) + (place.first_token + warp) * S::kWidth + 2 * lane;
  constexpr int kStep = kTogether * kBlockWarps;  // rows
#pragma unroll 1
  for (int first = warp; first < S::kRows; first += kStep) {
    float2 v[kTogether][S::kHeads];
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
#pragma unroll
      for (int s = 0; s < S::kHeads; ++s) {
        v[i][s] = make_float2(0, 0);
        if (first + i * kBlockWarps < a.steps)  // peers may have written it: not through L1
          v[i][s] = __ldcg(reinterpret_cast<const float2*>(x + i * kBlockWarps * S::kWidth + 64 * s));
      }
    float m[kTogether], r[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      float sum = 0;
#pragma unroll
      for (int s = 0; s < S::kHeads; ++s) sum += v[i][s].x + v[i][s].y;
      m[i] = warp_sum(sum) * kShare;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      float squares = 0;
#pragma unroll
      for (int s = 0; s < S::kHeads; ++s)
        squares += (v[i][s].x - m[i]) * (v[i][s].x - m[i]) + (v[i][s].y - m[i]) * (v[i][s].y - m[i]);
      r[i] = rsqrtf(warp_sum(squares) * kShare + a.epsilon);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = first + i * kBlockWarps;
      const bool inside = row < a.steps, stores = inside && row % S::kHeads == place.rank;
      if (stores && lane == 0) mean[place.first_token + row] = m[i], rstd[place.first_token + row] = r[i];
#pragma unroll
      for (int s = 0; s < S::kHeads; ++s) {
        Floats<2> y{};
        if (inside) {
          y.v[0] = (v[i][s].x - m[i]) * r[i] * scale[s].v[0] + shift[s].v[0];
          y.v[1] = (v[i][s].y - m[i]) * r[i] * scale[s].v[1] + shift[s].v[1];
        }
        store_floats(to + i * kBlockWarps * S::kInputStride + 64 * s, y);
        if (stores) store_floats(to_keep + i * kBlockWarps * S::kWidth + 64 * s, y);
      }
    }
    x += kStep * S::kWidth, to += kStep * S::kInputStride, to_keep += kStep * S::kWidth;
  }
}

/// q, k and v of the head, from norm1 in shared memory, which they replace there; to global memory too.
template <class S, class Weights, class RowOf>
__device__ __forceinline__ void project_qkv(const BlockForward& a, const BlockPlace& place, Weights& weights,
                                            const RowOf& row_of, typename S::Element* shared) {
  using T = typename S::Element;
  typename S::QkvTile tile;
  tile.start(static_cast<const T*>(a.qkv_bias), row_of);
  add_product(tile, weights, shared, S::kWidth, S::kInputStride);
  __syncthreads();  // all warps have read norm1
  T* const own = shared + S::QkvTile::own_row() * S::kHeadStride;
  tile.for_each([&](int row, int offset, const auto& values) {
    const int column = S::QkvTile::own_feature() + offset;
    store_floats(own + (column / 64 * S::kRows + row) * S::kHeadStride + column % 64, values);
  });
  __syncthreads();
  constexpr unsigned kPieces = kBlockHeadWidth / kPer16<T>, kPartPieces = S::kRows * kPieces;  // of 16 bytes
#pragma unroll 3
  for (unsigned i = threadIdx.x; i < 3 * kPartPieces; i += kBlockThreads) {
    const int part = static_cast<int>(i / kPartPieces), row = static_cast<int>(i % kPartPieces / kPieces),
              column = static_cast<int>(i % kPieces) * kPer16<T>;
    if (row < a.steps)
      store_elements<kPer16<T>>(
          static_cast<T*>(a.qkv) + (place.first_token + row) * 3 * S::kWidth + row_of(64 * part + column),
          load_elements<kPer16<T>>(shared + (part * S::kRows + row) * S::kHeadStride + column));
  }
  __syncthreads();  // attention stores its results in the place of q
}

/// Attention of the head by warps of 16 queries each, with all scores of a query in registers.
template <class S, class Math>
__device__ __forceinline__ void attend(const BlockForward& a, const BlockPlace& place, typename S::Element* shared) {
  using T = typename S::Element;
  constexpr int kN = S::kRows / 8;
  constexpr float kScale = 0.125f;  // 1 / sqrt(64)
  const int lane = lane_index(), warp = warp_index(), first = 16 * warp;
  if (warp >= S::kRowTiles) return;
  T* const queries = shared + first * S::kHeadStride;
  const T *keys = shared + S::kRows * S::kHeadStride, *values = keys + S::kRows * S::kHeadStride;
  float scores[kN][4] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  Math::template along<kBlockHeadWidth>(scores, queries, keys);
#pragma unroll
  for (int j = 0; j < kN; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = Math::tile_row(lane, j, e % 2);
      if (key >= a.steps || (a.causal && key > first + Math::own_row(lane, e / 2))) scores[j][e] = -INFINITY;
      max[e / 2] = fmaxf(max[e / 2], scores[j][e]);
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) max[h] = max_of_row(max[h]);  // every row has a key: key 0
#pragma unroll
  for (int j = 0; j < kN; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      scores[j][e] = fast_exp2(fmaf(scores[j][e], kScale * kLog2E, -max[e / 2] * (kScale * kLog2E)));
      sum[e / 2] += scores[j][e];
    }
  float out[kBlockHeadWidth / 8][4] = {}, factors[2];
  Math::template across<kBlockHeadWidth>(out, scores, values);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float total = sum_of_row(sum[h]);
    factors[h] = 1.0f / total;
    const int query = first + Math::own_row(lane, h);
    if (lane % 4 == 0 && query < a.steps)
      a.log_sums[(static_cast<int64_t>(place.sequence) * S::kHeads + place.rank) * a.steps + query] =
          max[h] * kScale + logf(total);
  }
  store_rows<Math, kBlockHeadWidth>(queries, out, factors,
                                    static_cast<T*>(a.attention) + place.first_token * S::kWidth + place.rank * 64,
                                    S::kWidth, first, a.steps, kBlockHeadWidth);
}

/// Own columns of sum = x + branch, with the branch rounded to T.
template <class S>
__device__ __forceinline__ void add_branch(const BlockForward& a, const BlockPlace& place,
                                           const typename S::OwnTile& branch, const float* x, float* sum) {
  using T = typename S::Element;
  using Tile = typename S::OwnTile;
  const int rest = a.steps - Tile::own_row();
  const int64_t own = (place.first_token + Tile::own_row()) * S::kWidth + place.rank * 64 + Tile::own_feature();
  branch.for_each([&](int row, int column, const Floats<Tile::kGroup>& values) {
    if (row >= rest) return;
    Floats<Tile::kGroup> total = load_floats<Tile::kGroup>(x + own + row * S::kWidth + column);
#pragma unroll
    for (int i = 0; i < Tile::kGroup; ++i) total.v[i] += to_float(to_element<T>(values.v[i]));
    store_floats(sum + own + row * S::kWidth + column, total);
  });
}

/// Own columns of middle, from all columns of attention.
template <class S, class Weights, class RowOf>
__device__ __forceinline__ void project_out(const BlockForward& a, const BlockPlace& place, Weights& weights,
                                            const RowOf& row_of, typename S::Element* shared) {
  using T = typename S::Element;
  copy_matrix<T, S::kRows, S::kWidth>(shared, static_cast<const T*>(a.attention) + place.first_token * S::kWidth,
                                      S::kWidth, a.steps);
  commit_copies();
  typename S::OwnTile tile;
  tile.start(static_cast<const T*>(a.out_bias), row_of);
  wait_for_copies<0>();
  __syncthreads();
  add_product(tile, weights, shared, S::kWidth, S::kInputStride);
  add_branch<S>(a, place, tile, a.x, a.middle);
}

/// Hidden units of a pass before and after GELU, from norm2 in shared memory. The sums pass through shared memory as
/// f32, so that GELU is a loop with few instructions and rows are stored whole.
template <class S, class Weights, class RowOf>
__device__ __forceinline__ void project_up(const BlockForward& a, const BlockPlace& place, Weights& weights,
                                           const RowOf& row_of, typename S::Element* shared) {
  using T = typename S::Element;
  using Tile = typename S::UpTile;
  Tile tile;
  tile.start(static_cast<const T*>(a.up_bias), row_of);
  add_product(tile, weights, shared, S::kWidth, S::kInputStride);
  float* const sums = reinterpret_cast<float*>(shared + S::kRows * S::kInputStride);
  float* const own = sums + Tile::own_row() * S::kSumStride + Tile::own_feature();
  tile.for_each([&](int row, int unit, const auto& values) { store_floats(own + row * S::kSumStride + unit, values); });
  __syncthreads();
  constexpr int kGroup = 4;  // units
  constexpr unsigned kGroups = S::kPassUnits / kGroup;
#pragma unroll 2
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(a.steps) * kGroups; i += kBlockThreads) {
    const int row = static_cast<int>(i / kGroups), unit = static_cast<int>(i % kGroups) * kGroup;
    const int64_t at = (place.first_token + row) * S::kHidden + row_of(unit);
    Floats<kGroup> values = load_floats<kGroup>(sums + row * S::kSumStride + unit);
    store_floats(static_cast<T*>(a.up) + at, values);
#pragma unroll
    for (int e = 0; e < kGroup; ++e) values.v[e] = gelu_of(values.v[e]).value;
    store_floats(static_cast<T*>(a.gelu) + at, values);
  }
}

/// Own columns of the block's output, from all hidden units, of which two chunks are in shared memory.
template <class S, class Weights, class RowOf>
__device__ __forceinline__ void project_down(const BlockForward& a, const BlockPlace& place, Weights& weights,
                                             const RowOf& row_of, typename S::Element* shared) {
  using T = typename S::Element;
  constexpr int kNumChunks = S::kHidden / S::kChunk;
  const auto chunk_at = [&](int chunk) { return shared + chunk % 2 * S::kRows * S::kChunkStride; };
  const auto copy_chunk = [&](int chunk) {
    copy_matrix<T, S::kRows, S::kChunk>(
        chunk_at(chunk), static_cast<const T*>(a.gelu) + place.first_token * S::kHidden + chunk * S::kChunk, S::kHidden,
        a.steps);
    commit_copies();
  };
  copy_chunk(0);
  typename S::OwnTile tile;
  tile.start(static_cast<const T*>(a.down_bias), row_of);
#pragma unroll 1
  for (int chunk = 0; chunk < kNumChunks; ++chunk) {
    if (chunk + 1 < kNumChunks) {
      copy_chunk(chunk + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    add_product(tile, weights, chunk_at(chunk), S::kChunk, S::kChunkStride);
    __syncthreads();  // before the next copy into this chunk
  }
  add_branch<S>(a, place, tile, a.middle, a.out);
}

/// The kernel, by clusters of S::kHeads blocks of kBlockThreads threads, one cluster per sequence.
template <class S, class Math>
__device__ __forceinline__ void block_forward_body(const BlockForward& a, std::byte* memory) {
  using T = typename S::Element;
  T* const shared = reinterpret_cast<T*>(memory);
  const int rank = cluster_place().rank, sequence = static_cast<int>(blockIdx.x / S::kHeads);
  const BlockPlace place{rank, sequence, static_cast<int64_t>(sequence) * a.steps};
  const auto qkv_row = [&](int column) { return column / 64 * S::kWidth + rank * 64 + column % 64; };
  const auto own_row = [&](int column) { return rank * 64 + column; };
  const auto unit_row = [&](int pass) {
    return [=](int unit) { return rank * S::kOwnHidden + pass * S::kPassUnits + unit; };
  };
  {
    WeightStream<T, typename S::QkvTile, S::kWidth, 2> weights(static_cast<const T*>(a.qkv_weight), qkv_row);
    normalise_rows<S>(a, place, a.x, a.gamma1, a.beta1, a.norm1, a.mean1, a.rstd1, shared);
    __syncthreads();
    project_qkv<S>(a, place, weights, qkv_row, shared);
  }
  attend<S, Math>(a, place, shared);
  {
    arrive_at_peers();
    WeightStream<T, typename S::OwnTile, S::kWidth, S::kOutAhead> weights(static_cast<const T*>(a.out_weight), own_row);
    wait_for_peers();  // attention of all heads
    project_out<S>(a, place, weights, own_row, shared);
  }
  using UpStream = WeightStream<T, typename S::UpTile, S::kWidth, 2>;
  {
    arrive_at_peers();
    UpStream weights(static_cast<const T*>(a.up_weight), unit_row(0));
    wait_for_peers();  // all columns of middle
    normalise_rows<S>(a, place, a.middle, a.gamma2, a.beta2, a.norm2, a.mean2, a.rstd2, shared);
    __syncthreads();
    project_up<S>(a, place, weights, unit_row(0), shared);
  }
  if constexpr (S::kUpPasses == 2) {
    UpStream weights(static_cast<const T*>(a.up_weight), unit_row(1));
    __syncthreads();  // the sums of the first pass are read
    project_up<S>(a, place, weights, unit_row(1), shared);
  }
  arrive_at_peers();
  WeightStream<T, typename S::OwnTile, S::kHidden, 4> weights(static_cast<const T*>(a.down_weight), own_row);
  wait_for_peers();  // all hidden units
  project_down<S>(a, place, weights, own_row, shared);
}

}  // namespace amdahl

// Backward attention. Scores are computed again from q, k and the log sums of forward, once by blocks of queries, for
// dq, and once by blocks of keys, for dk and dv: every sum has one owner and a fixed order, without atomics.
//
// With p = exp(s - log_sum) and delta = sum over the head's width of out * d_out:
//   dv = p^T d_out, ds = p * (d_out v^T - delta), dq = scale * ds k, dk = scale * ds^T q
#include <cmath>

#include "ops/attention/cuda_attention_tile.cuh"

namespace amdahl {
namespace {

template <class Element>
struct BackwardPointers {
  const Element *qkv, *out, *d_out;
  const float* log_sums;
  float* deltas;  // [batch, heads, steps], written by the blocks of queries
  Element* d_qkv;
};

/// delta of the warp's 16 queries, into shared and global memory. d_out is the warp's rows in shared memory.
template <class Math, int kWidth, bool kDocuments>
__device__ __forceinline__ void sum_deltas(const AttentionPlace<kDocuments>& p,
                                           const BackwardPointers<typename Math::Element>& a,
                                           const typename Math::Element* d_out, int head, int first, float* deltas) {
  using Element = typename Math::Element;
  constexpr int kPer16 = 16 / static_cast<int>(sizeof(Element)), kLanes = kWidth / kPer16;  // per row: 4 to 32
  const int lane = threadIdx.x % kWarp, column = lane % kLanes * kPer16;
#pragma unroll
  for (int base = 0; base < kWarpRows16; base += kWarp / kLanes) {
    const int row = base + lane / kLanes, query = first + row;
    float sum = 0;
    if (query < p.steps && column < p.width) {
      const Floats<kPer16> x = load_floats<kPer16>(a.out + p.out_offset(head) + query * p.out_stride + column),
                           y = load_floats<kPer16>(d_out + row * (kWidth + kRowPad) + column);
#pragma unroll
      for (int i = 0; i < kPer16; ++i) sum += x.v[i] * y.v[i];
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane % kLanes != 0) continue;
    deltas[row] = sum;
    if (query < p.steps) a.deltas[p.row_offset(head) + query] = sum;
  }
  __syncwarp();
}

/// dq: a block has 64 queries and passes over keys and values.
template <class Math, int kWidth, bool kDocuments>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_queries_kernel(AttentionPlace<kDocuments> p, BackwardPointers<typename Math::Element> a) {
  using Tile = AttentionTile<Math, kWidth>;
  using Element = typename Math::Element;
  constexpr int kN = Tile::kN;
  extern __shared__ uint4 attention_memory[];
  __shared__ float deltas[kOwnRows];
  auto* queries = reinterpret_cast<Element*>(attention_memory);
  Element* d_outs = queries + Tile::kOwnElements;
  Element* tiles = d_outs + Tile::kOwnElements;  // two stages of keys and values
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  // The blocks with most keys start first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kOwnRows, own_first = first + warp * kWarpRows16;
  const int head = static_cast<int>(blockIdx.y), key_head = head / p.group;
  const Element *k = a.qkv + p.key_offset(0, key_head), *v = a.qkv + p.key_offset(1, key_head);
  const auto copy_tile = [&](int tile) {
    Element* to = tiles + tile % 2 * 2 * Tile::kTileElements;
    copy_rows<kWidth, Tile::kRows>(to, k, p.qkv_stride, tile * Tile::kRows, p.steps, p.width);
    copy_rows<kWidth, Tile::kRows>(to + Tile::kTileElements, v, p.qkv_stride, tile * Tile::kRows, p.steps, p.width);
    commit_copies();
  };
  copy_rows<kWidth, kOwnRows>(queries, a.qkv + p.query_offset(head), p.qkv_stride, first, p.steps, p.width);
  copy_rows<kWidth, kOwnRows>(d_outs, a.d_out + p.out_offset(head), p.out_stride, first, p.steps, p.width);
  commit_copies();
  const int first_tile = p.first_key(first) / Tile::kRows;
  copy_tile(first_tile);
  wait_for_copies<1>();  // of the own rows
  __syncthreads();
  const int own = warp * kWarpRows16 * Tile::kStride;  // offset of the warp's rows
  sum_deltas<Math, kWidth>(p, a, d_outs + own, head, own_first, deltas + warp * kWarpRows16);
  float log_sum[2], delta[2];  // the logarithm has the base 2
  int first_keys[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = Math::own_row(lane, h), query = own_first + row;
    log_sum[h] = query < p.steps ? a.log_sums[p.row_offset(head) + query] * kLog2E : 0.0f;
    delta[h] = deltas[warp * kWarpRows16 + row];
    first_keys[h] = p.first_key(query);
  }
  float dq[kWidth / 8][4] = {};
  const int num_tiles = key_tiles(p, first + kOwnRows - 1, Tile::kRows);
  for (int tile = first_tile; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) {
      copy_tile(tile + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const Element* keys = tiles + tile % 2 * 2 * Tile::kTileElements;
    float weights[kN][4] = {}, d_weights[kN][4] = {};
    Math::template along<kWidth>(weights, queries + own, keys);
    Math::template along<kWidth>(d_weights, d_outs + own, keys + Tile::kTileElements);
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = tile * Tile::kRows + Math::tile_row(lane, j, e % 2), h = e / 2;
        const bool attends = key < p.steps && p.attends(own_first + Math::own_row(lane, h), key, first_keys[h]);
        const float weight = attends ? fast_exp2(fmaf(weights[j][e], p.scale_log2, -log_sum[h])) : 0.0f;
        weights[j][e] = weight * (d_weights[j][e] - delta[h]);
      }
    Math::template across<kWidth>(dq, weights, keys);
    __syncthreads();  // before the next copy into this stage
  }
  const float factors[2] = {p.scale, p.scale};
  store_rows<Math, kWidth>(queries + own, dq, factors, a.d_qkv + p.query_offset(head), p.qkv_stride, own_first, p.steps,
                           p.width);
}

/// Blocks at once on a multiprocessor: halves of several documents have as many as those of one. 0: no bound.
template <class Math, int kWidth, bool kDocuments>
constexpr int kKeyBlocks = kDocuments && sizeof(typename Math::Element) == 2 && kWidth <= 64 ? (kWidth == 64 ? 3 : 4)
                                                                                             : 0;

/// dk and dv: a block has 64 keys and passes over the queries of all heads that have them, and over their gradients.
/// Products are transposed: rows are keys.
template <class Math, int kWidth, bool kDocuments>
__global__ void __launch_bounds__(kAttentionThreads, kKeyBlocks<Math, kWidth, kDocuments>)
    attention_keys_kernel(AttentionPlace<kDocuments> p, BackwardPointers<typename Math::Element> a) {
  using Tile = AttentionTile<Math, kWidth>;
  using Element = typename Math::Element;
  constexpr int kN = Tile::kN;
  extern __shared__ uint4 attention_memory[];
  __shared__ float row_values[2][2][Tile::kRows];  // by stage: log sums, deltas
  auto* keys = reinterpret_cast<Element*>(attention_memory);
  Element* values = keys + Tile::kOwnElements;
  Element* tiles = values + Tile::kOwnElements;  // two stages of queries and d_out
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first = static_cast<int>(blockIdx.x) * kOwnRows, own_first = first + warp * kWarpRows16;
  const int key_head = static_cast<int>(blockIdx.y);
  const int first_tile = p.causal ? first / Tile::kRows : 0;
  const int end_tile = (p.end_query(first + kOwnRows - 1) + Tile::kRows - 1) / Tile::kRows;
  const int tiles_of_head = end_tile - first_tile, num_tiles = p.group * tiles_of_head;
  const auto copy_tile = [&](int tile) {
    const int head = key_head * p.group + tile / tiles_of_head;
    const int first_query = (first_tile + tile % tiles_of_head) * Tile::kRows;
    const Element *q = a.qkv + p.query_offset(head), *d_out = a.d_out + p.out_offset(head);
    Element* to = tiles + tile % 2 * 2 * Tile::kTileElements;
    copy_rows<kWidth, Tile::kRows>(to, q, p.qkv_stride, first_query, p.steps, p.width);
    copy_rows<kWidth, Tile::kRows>(to + Tile::kTileElements, d_out, p.out_stride, first_query, p.steps, p.width);
    const int which = static_cast<int>(threadIdx.x) / Tile::kRows, row = static_cast<int>(threadIdx.x) % Tile::kRows;
    if (which < 2) {
      const float* from = (which == 0 ? a.log_sums : a.deltas) + p.row_offset(head);
      const bool inside = first_query + row < p.steps;
      copy4(&row_values[tile % 2][which][row], inside ? from + first_query + row : from, inside);
    }
    commit_copies();
  };
  copy_rows<kWidth, kOwnRows>(keys, a.qkv + p.key_offset(0, key_head), p.qkv_stride, first, p.steps, p.width);
  copy_rows<kWidth, kOwnRows>(values, a.qkv + p.key_offset(1, key_head), p.qkv_stride, first, p.steps, p.width);
  copy_tile(0);
  unsigned num_queries[2];  // that attend to the lane's keys, from the key's own step on
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int key = own_first + Math::own_row(lane, h);
    num_queries[h] = static_cast<unsigned>(max(p.end_query(key) - key, 0));
  }
  float dk[kWidth / 8][4] = {}, dv[kWidth / 8][4] = {};
  const int own = warp * kWarpRows16 * Tile::kStride;  // offset of the warp's rows
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) {
      copy_tile(tile + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const Element* queries = tiles + tile % 2 * 2 * Tile::kTileElements;
    const float *log_sums = row_values[tile % 2][0], *deltas = row_values[tile % 2][1];
    const int first_query = (first_tile + tile % tiles_of_head) * Tile::kRows;
    float weights[kN][4] = {}, d_weights[kN][4] = {};
    Math::template along<kWidth>(weights, keys + own, queries);
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = Math::tile_row(lane, j, e % 2), query = first_query + row;
        const int key = own_first + Math::own_row(lane, e / 2);
        const bool attends = kDocuments ? static_cast<unsigned>(query - key) < num_queries[e / 2]
                                        : query < p.steps && p.attends(query, key, 0);
        weights[j][e] = attends ? fast_exp2(fmaf(weights[j][e], p.scale_log2, -log_sums[row] * kLog2E)) : 0.0f;
      }
    Math::template across<kWidth>(dv, weights, queries + Tile::kTileElements);
    Math::template along<kWidth>(d_weights, values + own, queries + Tile::kTileElements);
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) weights[j][e] *= d_weights[j][e] - deltas[Math::tile_row(lane, j, e % 2)];
    Math::template across<kWidth>(dk, weights, queries);
    __syncthreads();  // before the next copy into this stage
  }
  const float scaled[2] = {p.scale, p.scale}, plain[2] = {1, 1};
  store_rows<Math, kWidth>(keys + own, dk, scaled, a.d_qkv + p.key_offset(0, key_head), p.qkv_stride, own_first,
                           p.steps, p.width);
  store_rows<Math, kWidth>(values + own, dv, plain, a.d_qkv + p.key_offset(1, key_head), p.qkv_stride, own_first,
                           p.steps, p.width);
}

}  // namespace

void launch_attention_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, MathMode math,
                               const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  check_attention(s, {a.qkv, a.out, a.d_out, a.d_qkv});
  const int64_t rows = s.batch * s.steps * s.heads;
  if (rows == 0) return;
  if (static_cast<size_t>(rows) * sizeof(float) > workspace.bytes)
    throw Error(Cause::usage, "the gradient of attention with " + std::to_string(rows) + " rows of scores in one call",
                "a smaller micro-batch");
  with_attention(s, math, [&](auto products, auto width, auto documents) {
    using Math = decltype(products);
    using Tile = AttentionTile<Math, width>;
    using Element = typename Math::Element;
    constexpr size_t kBytes = (2 * Tile::kOwnElements + 4 * Tile::kTileElements) * sizeof(Element);
    const BackwardPointers<Element> pointers{static_cast<const Element*>(a.qkv),   static_cast<const Element*>(a.out),
                                             static_cast<const Element*>(a.d_out), a.log_sums,
                                             static_cast<float*>(workspace.data),  static_cast<Element*>(a.d_qkv)};
    launch_attention_kernel(launch, attention_blocks(s, s.heads), kBytes,
                            attention_queries_kernel<Math, width, documents>, "attention_queries_kernel",
                            place_of<documents>(s), pointers);
    launch_attention_kernel(launch, attention_blocks(s, s.key_heads()), kBytes,
                            attention_keys_kernel<Math, width, documents>, "attention_keys_kernel",
                            place_of<documents>(s), pointers);
  });
}

}  // namespace amdahl

// Forward attention: a block has 64 queries of a head and passes once over the keys and values, with softmax computed
// on the way.
#include <cmath>

#include "ops/attention/cuda_attention_tile.cuh"

namespace amdahl {
namespace {

template <class Element>
struct ForwardPointers {
  const Element* qkv;
  Element* out;
  float* log_sums;
};

/// Running softmax of the two row slots of a lane. The maximum is of unscaled scores; `sum` is the lane's part.
struct RunningSoftmax {
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
};

/// Turns the scores of a tile into weights, and scales `out` and the sums to the new maximum.
template <int kN, int kColumns>
__device__ __forceinline__ void soften(float (&scores)[kN][4], RunningSoftmax& softmax, float (&out)[kColumns][4],
                                       float scale_log2) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float max = softmax.max[h];
#pragma unroll
    for (int j = 0; j < kN; ++j) max = fmaxf(max, fmaxf(scores[j][2 * h], scores[j][2 * h + 1]));
    max = max_of_row(max);
    const float origin = max == -INFINITY ? 0.0f : max * scale_log2;
    const float shrink = fast_exp2(fmaf(softmax.max[h], scale_log2, -origin));
    softmax.max[h] = max;
    float sum = softmax.sum[h] * shrink;
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) {
        scores[j][e] = fast_exp2(fmaf(scores[j][e], scale_log2, -origin));
        sum += scores[j][e];
      }
    softmax.sum[h] = sum;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) out[j][2 * h] *= shrink, out[j][2 * h + 1] *= shrink;
  }
}

template <class Math, int kWidth, bool kDocuments>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(AttentionPlace<kDocuments> p, ForwardPointers<typename Math::Element> a) {
  using Tile = AttentionTile<Math, kWidth>;
  using Element = typename Math::Element;
  constexpr int kN = Tile::kN;
  extern __shared__ uint4 attention_memory[];
  auto* queries = reinterpret_cast<Element*>(attention_memory);
  Element* tiles = queries + Tile::kOwnElements;  // two stages of keys and values
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
  const int first_tile = p.first_key(first) / Tile::kRows;
  copy_tile(first_tile);
  float out[kWidth / 8][4] = {};
  RunningSoftmax softmax;
  int first_keys[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) first_keys[h] = p.first_key(own_first + Math::own_row(lane, h));
  const int whole_from = p.first_key(own_first + kWarpRows16 - 1);  // keys that no query of the warp leaves out
  const int num_tiles = key_tiles(p, first + kOwnRows - 1, Tile::kRows);
  const Element* own = queries + warp * kWarpRows16 * Tile::kStride;
  for (int tile = first_tile; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) {
      copy_tile(tile + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const Element* keys = tiles + tile % 2 * 2 * Tile::kTileElements;
    const int first_key = tile * Tile::kRows, past_key = first_key + Tile::kRows;
    float scores[kN][4] = {};
    Math::template along<kWidth>(scores, own, keys);
    if (past_key > p.steps || (p.causal && past_key > own_first + 1) ||
        (kDocuments ? first_key < whole_from : first_key + p.window < own_first + kWarpRows16)) {
#pragma unroll
      for (int j = 0; j < kN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = first_key + Math::tile_row(lane, j, e % 2), query = own_first + Math::own_row(lane, e / 2);
          if (key >= p.steps || !p.attends(query, key, first_keys[e / 2])) scores[j][e] = -INFINITY;
        }
    }
    soften(scores, softmax, out, p.scale_log2);
    Math::template across<kWidth>(out, scores, keys + Tile::kTileElements);
    __syncthreads();  // before the next copy into this stage
  }
  float factors[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = sum_of_row(softmax.sum[h]);
    factors[h] = 1.0f / sum;
    const int query = own_first + Math::own_row(lane, h);
    if (lane % 4 == 0 && query < p.steps) a.log_sums[p.row_offset(head) + query] = softmax.max[h] * p.scale + logf(sum);
  }
  store_rows<Math, kWidth>(queries + warp * kWarpRows16 * Tile::kStride, out, factors, a.out + p.out_offset(head),
                           p.out_stride, own_first, p.steps, p.width);
}

}  // namespace

void launch_attention(const KernelLaunch& launch, MathMode math, const AttentionForward& a) {
  const AttentionShape& s = a.shape;
  check_attention(s, {a.qkv, a.out});
  if (s.batch * s.steps * s.heads == 0) return;
  with_attention(s, math, [&](auto products, auto width, auto documents) {
    using Math = decltype(products);
    using Tile = AttentionTile<Math, width>;
    using Element = typename Math::Element;
    constexpr size_t kBytes = (Tile::kOwnElements + 4 * Tile::kTileElements) * sizeof(Element);
    const ForwardPointers<Element> pointers{static_cast<const Element*>(a.qkv), static_cast<Element*>(a.out),
                                            a.log_sums};
    launch_attention_kernel(launch, attention_blocks(s, s.heads), kBytes, attention_kernel<Math, width, documents>,
                            "attention_kernel", place_of<documents>(s), pointers);
  });
}

}  // namespace amdahl

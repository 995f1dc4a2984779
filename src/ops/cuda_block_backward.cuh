// Device code of the gradients of the inputs of a transformer block (docs/decisions/fused-blocks.md), one cluster of
// blocks per sequence.
//
// Each block of the cluster owns a head, 64 columns of the residual stream and 256 hidden units:
//   d_up = (d_out Wdown) * gelu'(up) of its hidden units; d_norm2 += d_up Wup; LN2 of its columns gives d_middle
//   d_attention = d_middle Wout of its head; attention; d_norm1 += d_qkv Wqkv; LN1 of its columns gives dx
// The sums over hidden units and heads are over the cluster: a block leaves its part [rows, width] in f32 in its shared
// memory, and the owner of a column reads all parts in the order of ranks. Numbers are rounded where the layers' own
// kernels round them.
//
// Work of a block, 96 steps, 3 heads: 17 M products, 14,000 cycles of mma.sync at its rate of 1,270 a cycle, and
// 295 KB of weights from L2.
#pragma once

#include "ops/cuda_block_backward_attention.cuh"
#include "ops/cuda_block_backward_norm.cuh"
#include "ops/cuda_gelu.cuh"

namespace amdahl {

/// d_out in the compute type: all columns to shared memory, own ones also to global memory.
template <class S>
__device__ __forceinline__ void load_d_out(const BackwardPlace<S>& p, const BlockBackward& a) {
  using Element = typename S::Element;
  constexpr int kGroups = S::kWidth / 8;
  for (int i = p.thread(); i < p.rows * kGroups; i += p.threads()) {
    const int row = i / kGroups, column = i % kGroups * 8;
    Floats<8> values = {};
    const int64_t at = p.offset(row, S::kWidth) + column;
    if (row < p.steps) values = load_floats<8>(a.d_out + at);
    store_floats(p.region() + row * S::kStride + column, values);
    if (row < p.steps && a.d_out_typed && column / S::kHead == p.rank)
      store_floats(static_cast<Element*>(a.d_out_typed) + at, values);
  }
}

template <class S>
using UpRing = WeightRing<S, S::kWidth, S::kHidden>;
template <class S>
using HeadRing = WeightRing<S, S::kHead, S::kWidth>;
template <class S>
using QkvRing = WeightRing<S, S::kWidth, 3 * S::kHead>;

/// d_up of this block's hidden units from d_out, in place of `hidden`, which is up; then to global memory. `next` has
/// the weights of the product that follows.
template <class S>
__device__ __forceinline__ void compute_d_up(const BackwardPlace<S>& p, const BlockBackward& a,
                                             typename S::Element* hidden, const UpRing<S>& next) {
  using Element = typename S::Element;
  using DownRing = WeightRing<S, S::kUpColumns, S::kWidth>;
  constexpr int kUnits = 4 * S::kWidth;
  const auto down = [&](int first) {
    return DownRing(p, static_cast<const Element*>(a.down_weight) + p.rank * S::kHidden + first, kUnits, 64);
  };
  copy_sequence<S::kHidden>(p, hidden, S::kHiddenStride, static_cast<const Element*>(a.up) + p.rank * S::kHidden,
                            kUnits);
  commit_copies();
  down(0).start();
  load_d_out(p, a);
#pragma unroll 1
  for (int first = 0; first < S::kHidden; first += S::kUpColumns) {
    typename DownRing::Sums sums = {};
    down(first).multiply(sums, p.region(), S::kStride);
    if (first + S::kUpColumns < S::kHidden)
      down(first + S::kUpColumns).start();
    else
      next.start();
    for_each_pair(sums, p.first_row(), first + p.column_warp() * DownRing::kWarpColumns, p.lane(),
                  [&](int row, int column, const Floats<2>& pair) {
                    Element* const up = hidden + row * S::kHiddenStride + column;
                    const Floats<2> before = load_floats<2>(up);
                    store_floats(up, Floats<2>{{pair.v[0] * gelu_of(before.v[0]).derivative,
                                                pair.v[1] * gelu_of(before.v[1]).derivative}});
                  });
  }
  __syncthreads();
  store_sequence<S::kHidden>(p, hidden, S::kHiddenStride, static_cast<Element*>(a.d_up) + p.rank * S::kHidden, kUnits);
}

/// A warp's part of a product over hidden units or heads, to where the cluster reads it. Nobody uses the region.
template <class S, class Sums>
__device__ __forceinline__ void store_partials(const BackwardPlace<S>& p, const Sums& sums) {
  for_each_pair(sums, p.first_row(), p.column_warp() * (S::kWidth / S::kColumnWarps), p.lane(),
                [&](int row, int column, const Floats<2>& pair) {
                  store_floats(p.partials() + row * S::kSumStride + column, pair);
                });
}

/// Sends eight columns of d_middle, in the compute type, to the matrix of each block of the cluster, and to memory.
template <class S>
__device__ __forceinline__ void share_d_middle(const BackwardPlace<S>& p, const BlockBackward& a, int row, int column,
                                               const Floats<8>& values) {
  using Element = typename S::Element;
#pragma unroll
  for (int rank = 0; rank < S::kHeads; ++rank)
    store_floats(peer_pointer(p.region() + row * S::kStride + column, rank), values);
  if (row < p.steps && a.d_middle_typed)
    store_floats(static_cast<Element*>(a.d_middle_typed) + p.offset(row, S::kWidth) + column, values);
}

__device__ __forceinline__ void synchronise_cluster() {
  arrive_at_peers();
  wait_for_peers();
}

/// From d_out to d_middle, in the region of all blocks. `next` has the weights of the product that follows.
template <class S>
__device__ __forceinline__ void dense_gradients(const BackwardPlace<S>& p, const BlockBackward& a,
                                                const HeadRing<S>& next) {
  using Element = typename S::Element;
  Element* const hidden = p.region() + p.rows * S::kStride;
  const UpRing<S> up(p, static_cast<const Element*>(a.up_weight) + p.rank * S::kHidden * S::kWidth, S::kWidth, 64);
  compute_d_up(p, a, hidden, up);
  typename UpRing<S>::Sums sums = {};
  up.multiply(sums, hidden, S::kHiddenStride);
  next.start();
  store_partials(p, sums);
  arrive_at_peers();
  float* const own = a.norm_partials + static_cast<int64_t>(p.sequence()) * 4 * S::kWidth;
  const NormArrays arrays{a.middle,           a.mean2, a.rstd2, a.gamma2, a.d_out, a.d_middle, own + 2 * S::kWidth,
                          own + 3 * S::kWidth};
  NormRows<S> norm(p, arrays);
  norm.load();
  wait_for_peers();
  norm.sum_columns();
  synchronise_cluster();  // also: nobody reads partial sums any more
  AttentionGradient<S>(p, a).copy_inputs();
  norm.finish([&](int row, int column, const Floats<8>& values) { share_d_middle(p, a, row, column, values); });
  synchronise_cluster();
}

/// From d_middle to the partial sums of d_norm1, and on to dx.
template <class S>
__device__ __forceinline__ void attention_gradients(const BackwardPlace<S>& p, const BlockBackward& a,
                                                    const HeadRing<S>& out) {
  using Element = typename S::Element;
  const AttentionGradient<S> attention(p, a);
  const QkvRing<S> qkv(p, static_cast<const Element*>(a.qkv_weight) + p.rank * S::kHead * S::kWidth, S::kWidth,
                       S::kWidth);
  {
    HeadSums sums = {};
    out.multiply(sums, p.region(), S::kStride);
    qkv.start();
    attention.store_d_out(sums);
  }
  attention.compute();
  __syncthreads();
  attention.store_d_qkv();
  typename QkvRing<S>::Sums sums = {};
  qkv.multiply(sums, attention.d_qkv(), S::kQkvStride);
  store_partials(p, sums);
  arrive_at_peers();
  float* const own = a.norm_partials + static_cast<int64_t>(p.sequence()) * 4 * S::kWidth;
  const NormArrays arrays{a.x, a.mean1, a.rstd1, a.gamma1, a.d_middle, a.dx, own, own + S::kWidth};
  NormRows<S> norm(p, arrays);
  norm.load();
  wait_for_peers();
  norm.sum_columns();
  synchronise_cluster();  // also: no block leaves while others read its partial sums
  norm.finish([](int, int, const Floats<8>&) {});
}

/// Body of the kernel; its shared memory is S::shared_bytes(padded steps).
template <class S>
__device__ __forceinline__ void block_backward_body(const BlockBackward& a, std::byte* shared) {
  using Element = typename S::Element;
  const BackwardPlace<S> p(a, shared);
  const HeadRing<S> out(p, static_cast<const Element*>(a.out_weight) + p.rank * S::kHead, S::kWidth, 64);
  dense_gradients(p, a, out);
  attention_gradients(p, a, out);
}

}  // namespace amdahl

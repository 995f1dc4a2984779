// Device code of the backward kernel of a transformer block: the gradient of attention of one head, whose rows all are
// in shared memory.
//
// With p = exp(s - log_sum) and delta = sum over the head's width of out * d_out:
//   dv = p^T d_out, ds = p * (d_out v^T - delta), dq = scale * ds k, dk = scale * ds^T q
// p and ds are rounded to the compute type as operands, and pass through one matrix in shared memory in turn.
#pragma once

#include "ops/cuda_block_backward_parts.cuh"
#include "ops/cuda_exp2.cuh"

namespace amdahl {

/// A warp's scores: 32 queries by a quarter of the keys.
struct WarpScores {
  static constexpr int kTiles = 4;  // of 8 keys, at most
  float c[2][kTiles][4] = {};
};

/// A warp's rows of a gradient: 32 by 16 columns.
using HeadSums = float[2][2][4];

template <class S>
class AttentionGradient {
 public:
  using Element = typename S::Element;

  __device__ __forceinline__ AttentionGradient(const BackwardPlace<S>& place, const BlockBackward& arguments)
      : p_(place), a_(arguments) {}

  /// Starts copying the head's q, k and v.
  __device__ __forceinline__ void copy_inputs() const {
    const auto* qkv = static_cast<const Element*>(a_.qkv) + p_.rank * S::kHead;
    for (int part = 0; part < 3; ++part)
      copy_sequence<S::kHead>(p_, q() + part * p_.rows * S::kHeadStride, S::kHeadStride, qkv + part * S::kWidth,
                              3 * S::kWidth);
    commit_copies();
  }

  /// From d_out, which this block has written, to d_qkv in shared memory. q, k and v have arrived. Called by the block;
  /// the caller synchronises it before others read d_qkv.
  __device__ __forceinline__ void compute() const {
    __syncthreads();
    sum_deltas();
    WarpScores p, dp;
    if (attends_to_keys()) {
      multiply_matrices<Element>(p.c, along(q()), keys(k()), 0, S::kHead, tiles());
      multiply_matrices<Element>(dp.c, along(d_out()), keys(v()), 0, S::kHead, tiles());
      apply_softmax(p);
      store_weights(p);
    }
    __syncthreads();  // the weights and deltas are complete
    HeadSums dq = {}, dk = {}, dv = {};
    multiply_matrices<Element>(dv, weights_by_key(), columns(d_out()), first_query(), p_.rows);
    __syncthreads();  // nobody reads the weights any more
    if (attends_to_keys()) {
      differentiate(p, dp);
      store_weights(p);
    }
    __syncthreads();
    const Operand<Element, Stored::along_k> ds{weights() + p_.first_row() * weights_stride(), weights_stride()};
    multiply_matrices<Element>(dq, ds, columns(k()), 0, a_.causal ? p_.first_row() + S::kWarpRows : p_.rows);
    multiply_matrices<Element>(dk, weights_by_key(), columns(q()), first_query(), p_.rows);
    __syncthreads();  // nobody reads q, k and v any more
    store_part(0, dq, kScale), store_part(1, dk, kScale), store_part(2, dv, 1.0f);
  }

  /// [rows, 3 kHead], in place of q, k and v.
  __device__ __forceinline__ Element* d_qkv() const { return q(); }
  /// The head's part of d_qkv, to global memory.
  __device__ __forceinline__ void store_d_qkv() const {
    auto* to = static_cast<Element*>(a_.d_qkv) + p_.rank * S::kHead;
    for (int part = 0; part < 3; ++part)
      store_sequence<S::kHead>(p_, d_qkv() + part * S::kHead, S::kQkvStride, to + part * S::kWidth, 3 * S::kWidth);
  }
  /// The gradient of the head's output, from a warp's sums.
  __device__ __forceinline__ void store_d_out(const HeadSums& sums) const {
    for_each_pair(sums, p_.first_row(), p_.column_warp() * 16, p_.lane(),
                  [&](int row, int column, const Floats<2>& pair) {
                    store_floats(d_out() + row * S::kHeadStride + column, pair);
                  });
  }

 private:
  static constexpr float kScale = 0.125f;  // 1 / sqrt(kHead)
  static_assert(S::kHead == 64);

  // Shared matrices of kHead columns, and the weights [rows, rows], by query.
  __device__ __forceinline__ Element* d_out() const { return p_.region(); }
  __device__ __forceinline__ Element* weights() const { return p_.region() + p_.rows * S::kHeadStride; }
  __device__ __forceinline__ Element* q() const { return p_.region() + p_.rows * S::first_qkv(p_.rows); }
  __device__ __forceinline__ Element* k() const { return q() + p_.rows * S::kHeadStride; }
  __device__ __forceinline__ Element* v() const { return k() + p_.rows * S::kHeadStride; }
  __device__ __forceinline__ int weights_stride() const { return S::weights_stride(p_.rows); }
  /// A warp's keys: tiles of 8.
  __device__ __forceinline__ int tiles() const { return p_.rows / 32; }
  __device__ __forceinline__ int first_key() const { return p_.column_warp() * p_.rows / 4; }

  /// Whether any of the warp's queries may attend to any of its keys. What other warps never read stays unwritten.
  __device__ __forceinline__ bool attends_to_keys() const {
    return !a_.causal || first_key() < p_.first_row() + S::kWarpRows;
  }
  /// The first query that attends to one of the keys that are the warp's rows.
  __device__ __forceinline__ int first_query() const { return a_.causal ? p_.first_row() : 0; }

  __device__ __forceinline__ Operand<Element, Stored::along_k> along(const Element* matrix) const {
    return {matrix + p_.first_row() * S::kHeadStride, S::kHeadStride};
  }
  __device__ __forceinline__ Operand<Element, Stored::along_k> keys(const Element* matrix) const {
    return {matrix + first_key() * S::kHeadStride, S::kHeadStride};
  }
  __device__ __forceinline__ Operand<Element, Stored::across_k> columns(const Element* matrix) const {
    return {matrix + p_.column_warp() * 16, S::kHeadStride};
  }
  /// The transposed weights: rows are keys.
  __device__ __forceinline__ Operand<Element, Stored::across_k> weights_by_key() const {
    return {weights() + p_.first_row(), weights_stride()};
  }

  /// Eight lanes add up a row.
  __device__ __forceinline__ void sum_deltas() const {
    const auto* out = static_cast<const Element*>(a_.attention) + p_.rank * S::kHead + p_.thread() % 8 * 8;
    for (int row = p_.thread() / 8; row < p_.rows; row += p_.threads() / 8) {
      float sum = 0;
      if (row < p_.steps) {
        const Floats<8> x = load_floats<8>(out + p_.offset(row, S::kWidth)),
                        y = load_floats<8>(d_out() + row * S::kHeadStride + p_.thread() % 8 * 8);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += x.v[i] * y.v[i];
      }
#pragma unroll
      for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (p_.thread() % 8 == 0) p_.deltas()[row] = sum;
    }
  }

  __device__ __forceinline__ int query_of(int i, int high) const {
    return p_.first_row() + 16 * i + 8 * high + p_.lane() / 4;
  }
  __device__ __forceinline__ void apply_softmax(WarpScores& scores) const {
    const float* const log_sums = a_.log_sums + static_cast<int64_t>(p_.sequence() * S::kHeads + p_.rank) * p_.steps;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int high = 0; high < 2; ++high) {
        const int query = query_of(i, high);
        const float log_sum = query < p_.steps ? log_sums[query] * kLog2E : 0.0f;  // of base 2
#pragma unroll
        for (int j = 0; j < WarpScores::kTiles; ++j) {
          if (j >= tiles()) break;
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int key = first_key() + 8 * j + p_.lane() % 4 * 2 + e;
            const bool attends = query < p_.steps && key < p_.steps && (!a_.causal || key <= query);
            float& score = scores.c[i][j][2 * high + e];
            score = attends ? fast_exp2(fmaf(score, kScale * kLog2E, -log_sum)) : 0.0f;
          }
        }
      }
  }
  __device__ __forceinline__ void differentiate(WarpScores& p, const WarpScores& dp) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int high = 0; high < 2; ++high) {
        const float delta = p_.deltas()[query_of(i, high)];
#pragma unroll
        for (int j = 0; j < WarpScores::kTiles; ++j)
#pragma unroll
          for (int e = 2 * high; e < 2 * high + 2; ++e) p.c[i][j][e] *= dp.c[i][j][e] - delta;
      }
  }
  __device__ __forceinline__ void store_weights(const WarpScores& p) const {
    for_each_pair(p.c, p_.first_row(), first_key(), p_.lane(), [&](int row, int column, const Floats<2>& pair) {
      if (column < first_key() + 8 * tiles()) store_floats(weights() + row * weights_stride() + column, pair);
    });
  }
  __device__ __forceinline__ void store_part(int part, const HeadSums& sums, float factor) const {
    for_each_pair(
        sums, p_.first_row(), part * S::kHead + p_.column_warp() * 16, p_.lane(),
        [&](int row, int column, const Floats<2>& pair) {
          store_floats(d_qkv() + row * S::kQkvStride + column, Floats<2>{{pair.v[0] * factor, pair.v[1] * factor}});
        });
  }

  const BackwardPlace<S>& p_;
  const BlockBackward& a_;
};

}  // namespace amdahl

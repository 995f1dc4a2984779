// Device code of the backward kernel of a transformer block: layer normalisation of rows whose columns are divided over
// the blocks of a cluster.
#pragma once

#include "ops/cuda_block_backward_parts.cuh"

namespace amdahl {

/// Arrays of one normalisation, as in LayerNormBackward. dy are the partial sums of all blocks.
struct NormArrays {
  const float *x, *mean, *rstd, *gamma, *d_residual;
  float* dx;
  float *dgamma, *dbeta;  // [width] of this sequence
};

/// Eight neighbouring columns of this block in two rows: all rows of the sequence, by thread.
template <class S>
class NormRows {
 public:
  static constexpr int kRows = 2, kCount = 8, kLanes = S::kHead / kCount;  // lanes: of a row

  __device__ __forceinline__ NormRows(const BackwardPlace<S>& place, const NormArrays& arrays)
      : p_(place), a_(arrays), column_(place.rank * S::kHead + place.thread() % kLanes * kCount) {}

  /// What does not depend on other blocks.
  __device__ __forceinline__ void load() {
    gamma_ = load_floats<kCount>(a_.gamma + column_);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x_hat_[r] = {}, rstd_[r] = 0;
      if (row(r) >= p_.steps) continue;
      const float mean = a_.mean[p_.offset(row(r), 1)];
      rstd_[r] = a_.rstd[p_.offset(row(r), 1)];
      x_hat_[r] = load_floats<kCount>(a_.x + offset(r));
#pragma unroll
      for (int i = 0; i < kCount; ++i) x_hat_[r].v[i] = (x_hat_[r].v[i] - mean) * rstd_[r];
    }
  }

  /// Adds dy up over the cluster in the order of ranks, rounds it, and sends this block's sums of each row to all
  /// blocks. The partial sums of the peers are visible. The caller then synchronises the cluster.
  __device__ __forceinline__ void sum_columns() {
    Floats<kCount> dgamma = {}, dbeta = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      add_partials(r);
      float2 sums = {0, 0};  // of g = dy * gamma, and of g * x_hat
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float dy = dy_[r].v[i], g = dy * gamma_.v[i], x_hat = x_hat_[r].v[i];
        sums.x += g, sums.y += g * x_hat;
        dgamma.v[i] += dy * x_hat, dbeta.v[i] += dy;
      }
      send(r, sum_of_lanes(sums));
    }
    keep_column_sums(dgamma, dbeta);
  }

  /// After the cluster was synchronised: calls use(row, column of the matrix, dx) for each row, with zeros past the
  /// steps, and writes the sums of dgamma and dbeta.
  template <class Use>
  __device__ __forceinline__ void finish(const Use& use) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float2 sums = {0, 0};
#pragma unroll
      for (int rank = 0; rank < S::kHeads; ++rank) {
        const float2 part = p_.stats()[rank * p_.rows + row(r)];
        sums.x += part.x, sums.y += part.y;
      }
      const float mean_g = sums.x / S::kWidth, mean_gx = sums.y / S::kWidth;
      Floats<kCount> dx = {};
      if (row(r) < p_.steps) {
        dx = load_floats<kCount>(a_.d_residual + offset(r));
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          dx.v[i] += rstd_[r] * (dy_[r].v[i] * gamma_.v[i] - mean_g - x_hat_[r].v[i] * mean_gx);
        store_floats(a_.dx + offset(r), dx);
      }
      use(row(r), column_, dx);
    }
    write_column_sums();
  }

 private:
  __device__ __forceinline__ int row(int r) const { return p_.thread() / kLanes + r * p_.rows / kRows; }
  __device__ __forceinline__ int64_t offset(int r) const { return p_.offset(row(r), S::kWidth) + column_; }

  __device__ __forceinline__ void add_partials(int r) {
    const float* const place = p_.partials() + row(r) * S::kSumStride + column_;
    Floats<kCount> sums = {};
#pragma unroll
    for (int rank = 0; rank < S::kHeads; ++rank) {
      const Floats<kCount> part = load_floats<kCount>(peer_pointer(place, rank));
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.v[i] += part.v[i];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) dy_[r].v[i] = to_float(to_element<typename S::Element>(sums.v[i]));
  }
  static __device__ __forceinline__ float2 sum_of_lanes(float2 sums) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      sums.x += __shfl_xor_sync(0xffffffffu, sums.x, offset);
      sums.y += __shfl_xor_sync(0xffffffffu, sums.y, offset);
    }
    return sums;
  }
  /// Each lane of a row sends to one block.
  __device__ __forceinline__ void send(int r, float2 sums) const {
    const int to = p_.thread() % kLanes;
    if (to < S::kHeads) *peer_pointer(p_.stats() + p_.rank * p_.rows + row(r), to) = sums;
  }
  /// A warp's sums over its rows, into shared memory.
  __device__ __forceinline__ void keep_column_sums(Floats<kCount> dgamma, Floats<kCount> dbeta) const {
    float* const sums = p_.column_sums() + p_.warp() * 2 * S::kHead + p_.thread() % kLanes * kCount;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int offset = kLanes; offset < 32; offset *= 2) {
        dgamma.v[i] += __shfl_xor_sync(0xffffffffu, dgamma.v[i], offset);
        dbeta.v[i] += __shfl_xor_sync(0xffffffffu, dbeta.v[i], offset);
      }
    }
    if (p_.lane() >= kLanes) return;
    store_floats(sums, dgamma);
    store_floats(sums + S::kHead, dbeta);
  }
  __device__ __forceinline__ void write_column_sums() const {
    if (p_.thread() >= 2 * S::kHead) return;
    float sum = 0;
    for (int warp = 0; warp < p_.threads() / 32; ++warp) sum += p_.column_sums()[warp * 2 * S::kHead + p_.thread()];
    (p_.thread() < S::kHead ? a_.dgamma : a_.dbeta)[p_.rank * S::kHead + p_.thread() % S::kHead] = sum;
  }

  const BackwardPlace<S>& p_;
  const NormArrays& a_;
  int column_;
  Floats<kCount> gamma_, x_hat_[kRows], dy_[kRows];
  float rstd_[kRows];
};

}  // namespace amdahl

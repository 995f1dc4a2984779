// Device code of the backward kernel of a transformer block: its sizes, its place in the cluster, and products with
// weights that stream through shared memory.
#pragma once

#include <cstddef>

#include "ops/cuda_block_backward.h"
#include "ops/cuda_block_products.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

__host__ __device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

/// Sizes of the kernel. A block of the cluster has one head, 64 columns of the residual stream, and 256 hidden units.
/// Steps are padded to a multiple of 32 rows; four warps, side by side, have 32 of them.
template <class ElementType, int kNumHeads>
struct BackwardShape {
  using Element = ElementType;
  static constexpr int kHeads = kNumHeads, kHead = 64, kWidth = kHeads * kHead, kHidden = 4 * kHead;
  static constexpr int kWarpRows = 32, kColumnWarps = 4, kMostRows = 128, kMostThreads = kMostRows * kColumnWarps;
  static constexpr int kPer16 = 16 / static_cast<int>(sizeof(Element));
  // Elements between rows of shared matrices:
  static constexpr int kStride = kWidth + kPer16, kHiddenStride = kHidden + kPer16;
  static constexpr int kHeadStride = kHead + kOperandPad, kQkvStride = 3 * kHead + kPer16;
  static constexpr int kSumStride = kWidth + 8;  // floats
  // The ring of weights: stages of kStageRows rows.
  static constexpr bool kIsHalf = sizeof(Element) == 2;
  static constexpr int kUpColumns = kIsHalf && kHeads < 4 ? kHidden : kHidden / 2;  // of d_up at a time
  static constexpr int kStageRows = 4 * kPer16, kStages = kIsHalf ? 4 : 3;
  static constexpr int kStageElements = kStageRows * (larger(kUpColumns, kWidth) + kOperandPad);

  static __host__ __device__ constexpr int padded(int steps) { return (steps + kWarpRows - 1) / kWarpRows * kWarpRows; }
  static __host__ __device__ constexpr int weights_stride(int rows) { return rows + kOperandPad; }
  /// First element, per row, of q, k and v behind the gradient of the head's output and the attention weights.
  static __host__ __device__ constexpr int first_qkv(int rows) {
    return larger(kStride, kHeadStride + weights_stride(rows));
  }
  /// Elements per row of the region that the phases use in turn: gradient of the residual stream and hidden units;
  /// attention; partial sums over the cluster, [rows, kSumStride] floats, which are never more.
  static __host__ __device__ constexpr int region_columns(int rows) {
    return larger(kStride + kHiddenStride, first_qkv(rows) + 3 * kHeadStride);
  }
  static __host__ __device__ constexpr int ring_bytes() {
    return kStages * kStageElements * static_cast<int>(sizeof(Element));
  }
  static __host__ __device__ constexpr int region_bytes(int rows) {
    return rows * region_columns(rows) * static_cast<int>(sizeof(Element));
  }
  static __host__ __device__ constexpr int shared_bytes(int rows) {
    const int stats = 2 * kHeads, deltas = 1, column_sums = 2 * kHead * kColumnWarps / kWarpRows;  // floats per row
    return ring_bytes() + region_bytes(rows) + rows * (stats + deltas + column_sums) * static_cast<int>(sizeof(float));
  }
};

/// A thread's place in the problem, and the shared memory of its block. What is cheap to compute is not kept in
/// registers.
template <class S>
struct BackwardPlace {
  using Element = typename S::Element;
  std::byte* shared;
  int steps, rows;  // of the sequence; padded
  int rank;         // of the block: its head

  __device__ __forceinline__ BackwardPlace(const BlockBackward& a, std::byte* memory)
      : shared(memory), steps(a.steps), rows(S::padded(a.steps)), rank(cluster_place().rank) {}

  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int threads() const { return rows * S::kColumnWarps; }
  __device__ __forceinline__ int lane() const { return thread() % 32; }
  __device__ __forceinline__ int warp() const { return thread() / 32; }
  /// A warp's 32 rows, and its place along them.
  __device__ __forceinline__ int first_row() const { return warp() / S::kColumnWarps * S::kWarpRows; }
  __device__ __forceinline__ int column_warp() const { return warp() % S::kColumnWarps; }
  __device__ __forceinline__ int sequence() const { return static_cast<int>(blockIdx.x) / S::kHeads; }
  /// Offset of a row in a matrix of all tokens.
  __device__ __forceinline__ int64_t offset(int row, int stride) const {
    return static_cast<int64_t>(sequence() * steps + row) * stride;
  }

  __device__ __forceinline__ Element* ring() const { return reinterpret_cast<Element*>(shared); }
  __device__ __forceinline__ Element* region() const { return reinterpret_cast<Element*>(shared + S::ring_bytes()); }
  /// Partial sums [rows, kSumStride] of this block, which all blocks of the cluster read.
  __device__ __forceinline__ float* partials() const { return reinterpret_cast<float*>(region()); }
  /// [heads, rows] of layer normalisation, from the blocks of the cluster.
  __device__ __forceinline__ float2* stats() const {
    return reinterpret_cast<float2*>(shared + S::ring_bytes() + S::region_bytes(rows));
  }
  __device__ __forceinline__ float* deltas() const { return reinterpret_cast<float*>(stats() + S::kHeads * rows); }
  /// [warps, 2, kHead].
  __device__ __forceinline__ float* column_sums() const { return deltas() + rows; }
};

/// Starts copying kColumns columns of the sequence's rows into shared memory; rows past the steps become zeros.
template <int kColumns, class S>
__device__ __forceinline__ void copy_sequence(const BackwardPlace<S>& p, typename S::Element* to, int stride,
                                              const typename S::Element* from, int from_stride) {
  constexpr int kCopies = kColumns / S::kPer16;
  for (int i = p.thread(); i < p.rows * kCopies; i += p.threads()) {
    const int row = i / kCopies, column = i % kCopies * S::kPer16;
    const bool inside = row < p.steps;
    const auto* source = from + p.offset(inside ? row : 0, from_stride) + column;
    copy16(to + row * stride + column, source, inside);
  }
}

/// Writes kColumns columns of the sequence's rows from shared to global memory.
template <int kColumns, class S>
__device__ __forceinline__ void store_sequence(const BackwardPlace<S>& p, const typename S::Element* from, int stride,
                                               typename S::Element* to, int to_stride) {
  constexpr int kCopies = kColumns / S::kPer16;
  for (int i = p.thread(); i < p.steps * kCopies; i += p.threads()) {
    const int row = i / kCopies, column = i % kCopies * S::kPer16;
    *reinterpret_cast<uint4*>(to + p.offset(row, to_stride) + column) =
        *reinterpret_cast<const uint4*>(from + row * stride + column);
  }
}

/// Calls use(row, column, pair) for each pair of neighbouring sums of a warp.
template <int kRows, int kColumns, class Use>
__device__ __forceinline__ void for_each_pair(const float (&c)[kRows][kColumns][4], int first_row, int first_column,
                                              int lane, const Use& use) {
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int high = 0; high < 2; ++high)
        use(first_row + 16 * i + 8 * high + lane / 4, first_column + 8 * j + lane % 4 * 2,
            Floats<2>{{c[i][j][2 * high], c[i][j][2 * high + 1]}});
}

/// Products C[rows, kColumns] += A[rows, kDepth] B[kDepth, kColumns] of a shared matrix with rows of a weight matrix,
/// which pass through the ring in stages. The rows are groups of 64, `jump` rows apart.
template <class S, int kColumns, int kDepth>
class WeightRing {
 public:
  using Element = typename S::Element;
  static constexpr int kWarpColumns = kColumns / S::kColumnWarps, kNumStages = kDepth / S::kStageRows;
  using Sums = float[S::kWarpRows / 16][kWarpColumns / 8][4];

  __device__ __forceinline__ WeightRing(const BackwardPlace<S>& place, const Element* first, int stride, int jump)
      : p_(place), first_(first), stride_(stride), jump_(jump) {}
  /// Requests the first stages; nobody reads the ring any more.
  __device__ __forceinline__ void start() const {
#pragma unroll
    for (int stage = 0; stage < S::kStages - 1; ++stage) copy_stage(stage);
  }
  /// Called by the whole block after start; what it wrote to A before is visible. At the end nobody reads A or the
  /// ring, and all copies have arrived.
  __device__ __forceinline__ void multiply(Sums& sums, const Element* a, int a_stride) const {
    for (int stage = 0; stage < kNumStages; ++stage) {
      wait_for_copies<S::kStages - 2>();
      __syncthreads();  // the stage is complete, and nobody reads the one before it any more
      copy_stage(stage + S::kStages - 1);
      multiply_matrices<Element>(
          sums, Operand<Element, Stored::along_k>{a + p_.first_row() * a_stride + stage * S::kStageRows, a_stride},
          Operand<Element, Stored::across_k>{place_of(stage) + p_.column_warp() * kWarpColumns, kStageStride}, 0,
          S::kStageRows);
    }
    wait_for_copies<0>();
    __syncthreads();
  }

 private:
  static constexpr int kStageStride = kColumns + kOperandPad;
  static_assert(kDepth % S::kStageRows == 0 && 64 % S::kStageRows == 0);

  __device__ __forceinline__ Element* place_of(int stage) const {
    return p_.ring() + stage % S::kStages * S::kStageElements;
  }
  __device__ __forceinline__ void copy_stage(int stage) const {
    constexpr int kCopies = kColumns / S::kPer16;
    const int k = stage * S::kStageRows;
    const Element* from = first_ + static_cast<int64_t>(k / 64 * jump_ + k % 64) * stride_;
    Element* to = place_of(stage);
    if (stage < kNumStages)
      for (int i = p_.thread(); i < S::kStageRows * kCopies; i += p_.threads()) {
        const int row = i / kCopies, column = i % kCopies * S::kPer16;
        copy16(to + row * kStageStride + column, from + row * stride_ + column, true);
      }
    commit_copies();
  }

  const BackwardPlace<S>& p_;
  const Element* first_;
  int stride_, jump_;
};

}  // namespace amdahl

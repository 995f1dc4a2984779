// Device code of products in small transformer blocks: a matrix in shared memory times weights that go from global
// memory straight to registers.
//
// A block of eight warps computes y[rows, features] = x[rows, k] w[features, k]^T for all rows of one sequence. Each
// weight is used by one warp, or two, of the block, so a copy in shared memory would only add barriers: a lane loads
// what it multiplies, a few steps ahead, and the loop over k has no barrier.
//
// The tensor cores compute y^T = w x^T: 16 features by 8 rows at a time. A step is 64 bytes of k: 32 elements of 16
// bits, or 16 of f32. Lane (g, t) = (lane / 4, lane % 4) takes the t-th 16 bytes of features g and g + 8, and of row g
// of x, which is enough for two mma instructions: the order of k within a step is free, as both operands use the same
// one (cuda_mma.cuh).
#pragma once

#include "ops/cuda_instructions.cuh"
#include "ops/cuda_mma.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

inline constexpr int kBlockWarps = 8, kBlockThreads = 32 * kBlockWarps;
inline constexpr int kBlockHeadWidth = 64;  // columns of a head
inline constexpr int kStepBytes = 64;

// Of this thread; quotients of unsigned numbers are single shifts.
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x / 32); }
__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int lane_g() { return static_cast<int>(threadIdx.x % 32 / 4); }
__device__ __forceinline__ int lane_t() { return static_cast<int>(threadIdx.x % 4); }

template <class T>
inline constexpr int kPer16 = 16 / static_cast<int>(sizeof(T));
/// Elements of k in a step.
template <class T>
inline constexpr int kStepElements = kStepBytes / static_cast<int>(sizeof(T));
/// Elements between rows of a matrix in shared memory with `columns` columns, a multiple of 128 bytes: rows that follow
/// each other start half of the banks apart, so a quarter of a warp, which loads 64 bytes of two rows, uses all banks.
template <class T>
__host__ __device__ constexpr int row_stride(int columns) {
  return columns + kStepElements<T>;
}

/// A warp's part of a product of a block with kBlockRows rows: kWarpsAlongRows groups of rows, by groups of
/// 16 * kNumFeatureTiles features. A lane has kGroup neighbouring features at a time of each of its rows.
template <int kBlockRows, int kWarpsAlongRows, int kNumFeatureTiles>
struct WarpTile {
  static constexpr int kFeatureTiles = kNumFeatureTiles, kRowTiles = kBlockRows / kWarpsAlongRows / 8;
  static constexpr int kWarpsN = kBlockWarps / kWarpsAlongRows, kFeatures = kWarpsN * 16 * kFeatureTiles;
  static constexpr int kGroup = kFeatureTiles % 2 == 0 ? 4 : 2, kGroupTiles = kGroup / 2;
  static_assert(8 * kRowTiles * kWarpsAlongRows == kBlockRows, "warps have equally many rows");

  float c[kFeatureTiles][kRowTiles][4];  // as mma.m16n8 has them

  static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x / (32 * kWarpsN)) * 8 * kRowTiles;
  }
  /// Neighbouring features that share a block's rows of weights, and the first of those with tile i.
  static constexpr int kRun = 8 * kGroup;
  static __device__ __forceinline__ int first_of_run(int i) {
    const int group = static_cast<int>(threadIdx.x / 32 % kWarpsN);
    return 16 * (group * kFeatureTiles + i / kGroupTiles * kGroupTiles);
  }
  /// The feature of the block in slot g + 8 * high of feature tile i, relative to first_of_run(i) + kGroup * g.
  static __host__ __device__ constexpr int in_group(int i, int high) { return i % kGroupTiles * 2 + high; }
  static __device__ __forceinline__ int feature(int i, int high) {
    return first_of_run(i) + kGroup * lane_g() + in_group(i, high);
  }

  /// Starts the sums with a bias; `row_of(feature)`: the row of the weights, and element of the bias, of a feature.
  /// Runs of features are runs of rows.
  template <class T, class RowOf>
  __device__ __forceinline__ void start(const T* bias, const RowOf& row_of) {
#pragma unroll
    for (int i = 0; i < kFeatureTiles; ++i)
#pragma unroll
      for (int high = 0; high < 2; ++high) {
        const float value = to_float(bias[row_of(feature(i, high))]);
#pragma unroll
        for (int j = 0; j < kRowTiles; ++j) c[i][j][2 * high] = c[i][j][2 * high + 1] = value;
      }
  }

  /// The first of the lane's rows, and of its features.
  static __device__ __forceinline__ int own_row() { return first_row() + 2 * lane_t(); }
  static __device__ __forceinline__ int own_feature() { return feature(0, 0); }
  /// Calls use(row, feature, values) with every kGroup neighbouring results of the lane; `row` and `feature` are
  /// constants, relative to own_row() and own_feature(), so that addresses are one pointer with constant offsets.
  template <class Use>
  __device__ __forceinline__ void for_each(const Use& use) const {
#pragma unroll
    for (int j = 0; j < kRowTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e)
#pragma unroll
        for (int i = 0; i < kFeatureTiles; i += kGroupTiles) {
          Floats<kGroup> values;
#pragma unroll
          for (int x = 0; x < kGroup; ++x) values.v[x] = c[i + x / 2][j][x % 2 * 2 + e];
          use(8 * j + e, 16 * i, values);
        }
  }
};

/// The four words of 16 bytes as an mma reads them. f32 is rounded to tf32.
template <class T>
__device__ __forceinline__ void operand_words(uint32_t (&words)[4], const uint4& packed) {
  words[0] = packed.x, words[1] = packed.y, words[2] = packed.z, words[3] = packed.w;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = to_tf32(__uint_as_float(words[i]));
  }
}

/// What a lane multiplies of the weights [features, kNumK] of a product, kAhead steps before it needs it.
template <class T, class Tile, int kNumK, int kAhead>
class WeightStream {
 public:
  /// `row_of`: as WarpTile::start takes it.
  template <class RowOf>
  __device__ __forceinline__ WeightStream(const T* weights, const RowOf& row_of)
      : next_(weights + lane_g() * Tile::kGroup * kNumK + lane_t() * kPer16<T>) {
#pragma unroll
    for (int i = 0; i < Tile::kFeatureTiles; ++i) offsets_[i] = row_of(Tile::first_of_run(i)) * kNumK;
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) load(slot);
  }

  /// Adds the products of the step in `slot`, which then receives the step kAhead later. `x`: the lane's first 16 bytes
  /// of the step.
  __device__ __forceinline__ void multiply_step(Tile& tile, int slot, const T* x, int stride) {
    uint32_t w[Tile::kFeatureTiles][2][4];  // by tile and mma
#pragma unroll
    for (int i = 0; i < Tile::kFeatureTiles; ++i) {
      uint32_t low[4], high[4];
      weight_words(low, ahead_[slot][i][0]);
      weight_words(high, ahead_[slot][i][1]);
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        w[i][word / 2][word % 2 * 2] = low[word];
        w[i][word / 2][word % 2 * 2 + 1] = high[word];
      }
    }
#pragma unroll
    for (int j = 0; j < Tile::kRowTiles; ++j) {
      uint32_t rows[4];
      operand_words<T>(rows, *reinterpret_cast<const uint4*>(x + 8 * j * stride));
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < Tile::kFeatureTiles; ++i)
          multiply(tile.c[i][j], w[i][half], rows[2 * half], rows[2 * half + 1]);
    }
    load(slot);
  }

 private:
  __device__ __forceinline__ void load(int slot) {
    if (loaded_ < kNumK / kStepElements<T>) {
#pragma unroll
      for (int i = 0; i < Tile::kFeatureTiles; ++i)
#pragma unroll
        for (int high = 0; high < 2; ++high)
          ahead_[slot][i][high] =
              *reinterpret_cast<const uint4*>(next_ + offsets_[i] + Tile::in_group(i, high) * kNumK);
    }
    next_ += kStepElements<T>;
    ++loaded_;
  }
  /// An mma reads words of both features from four registers in a row, a load of 16 bytes fills four with words of one.
  /// Passing words of 16-bit elements through an instruction that the compiler cannot remove makes it move each of them
  /// once, not once per mma: gridDim.y is 1, which it does not know.
  static __device__ __forceinline__ void weight_words(uint32_t (&words)[4], const uint4& packed) {
    operand_words<T>(words, packed);
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __byte_perm(words[i], 0, 0x320fu + gridDim.y);
    }
  }
  static __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (sizeof(T) == 4)
      mma_tf32(c, a, b0, b1);
    else
      mma_half<T>(c, a, b0, b1);
  }

  const T* next_;
  int offsets_[Tile::kFeatureTiles];
  int loaded_ = 0;
  uint4 ahead_[kAhead][Tile::kFeatureTiles][2] = {};
};

/// tile += x w^T over the next `num_k` elements of k, a multiple of kAhead steps. `x`: [rows, num_k] in shared memory
/// with rows `stride` elements apart (row_stride).
template <class T, class Tile, int kNumK, int kAhead>
__device__ __forceinline__ void add_product(Tile& tile, WeightStream<T, Tile, kNumK, kAhead>& weights, const T* x,
                                            int num_k, int stride) {
  const T* own = x + (Tile::first_row() + lane_g()) * stride + lane_t() * kPer16<T>;
#pragma unroll 1
  for (int k = 0; k < num_k; k += kAhead * kStepElements<T>)
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
      weights.multiply_step(tile, slot, own, stride);
      own += kStepElements<T>;
    }
}

/// Starts copying kRows rows of `columns` columns into shared memory with the row stride row_stride; rows from `steps`
/// on become zeros. By the whole block; commit and wait follow.
template <class T, int kRows, int kColumns>
__device__ __forceinline__ void copy_matrix(T* to, const T* from, int from_stride, int steps) {
  constexpr unsigned kPieces = kColumns / kPer16<T>;  // of 16 bytes, of a row
  static_assert(kRows * kPieces % kBlockThreads == 0, "all threads copy equally many pieces");
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < kRows * kPieces; i += kBlockThreads) {
    const int row = static_cast<int>(i / kPieces), column = static_cast<int>(i % kPieces) * kPer16<T>;
    const bool inside = row < steps;
    copy16(to + row * row_stride<T>(kColumns) + column, inside ? from + row * from_stride + column : from, inside);
  }
}

}  // namespace amdahl

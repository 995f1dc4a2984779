// Device code of products in small transformer blocks: a matrix in shared memory times weights that go from global
// memory straight to registers.
//
// A block of eight warps computes c[rows, columns] = a[rows, k] w[columns, k]^T for all rows of one sequence. Each
// weight is used by one warp, or two, of the block, so a copy in shared memory would only add barriers: a lane loads
// what it multiplies, a few steps ahead, and the loop over k has no barrier.
//
// A step is 64 bytes of k: 32 elements of 16 bits, or 16 of f32. Lane (g, t) = (lane / 4, lane % 4) takes the t-th 16
// bytes of row g of either operand, which is enough for two mma instructions: the order of k within a step is free, as
// both operands use the same one (cuda_mma.cuh).
#pragma once

#include "ops/cuda_instructions.cuh"
#include "ops/cuda_mma.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

inline constexpr int kBlockWarps = 8, kBlockThreads = 32 * kBlockWarps;
inline constexpr int kBlockHeadWidth = 64;  // columns of a head
inline constexpr int kStepBytes = 64;

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

/// How the warps divide the columns of a product: kWarpsM groups of rows by groups of 8 * kColumnTiles columns. A
/// lane's results are 2 * kColumnTiles neighbouring columns of each of its rows.
template <int kBlockRowTiles, int kWarpsAlongRows, int kNumColumnTiles>
struct WarpTile {
  static constexpr int kRowTiles = kBlockRowTiles / kWarpsAlongRows, kColumnTiles = kNumColumnTiles;
  static constexpr int kWarpsN = kBlockWarps / kWarpsAlongRows, kColumns = kWarpsN * 8 * kColumnTiles;
  static_assert(kRowTiles * kWarpsAlongRows == kBlockRowTiles, "warps have equally many rows");

  float c[kRowTiles][kColumnTiles][4];  // as mma.m16n8 has them

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int first_row() { return warp() / kWarpsN * 16 * kRowTiles; }
  static __device__ __forceinline__ int first_column() { return warp() % kWarpsN * 8 * kColumnTiles; }
  /// The first of the lane's columns.
  static __device__ __forceinline__ int own_column() { return first_column() + lane() % 4 * 2 * kColumnTiles; }
  /// The column of the block whose weights the lane loads for tile j: slot g of the tile is that column.
  static __device__ __forceinline__ int weight_column(int j) {
    const int g = lane() / 4;
    return first_column() + g / 2 * 2 * kColumnTiles + 2 * j + g % 2;
  }

  /// Starts the sums with a bias; `row_of(column)`: the row of the weights, and element of the bias, of a column.
  template <class T, class RowOf>
  __device__ __forceinline__ void start(const T* bias, const RowOf& row_of) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float value = to_float(bias[row_of(own_column() + 2 * j + e)]);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) c[i][j][e] = c[i][j][e + 2] = value;
      }
  }

  /// Calls use(row, column, values) with every kGroup neighbouring results of the lane.
  template <int kGroup, class Use>
  __device__ __forceinline__ void for_each(const Use& use) const {
    static_assert(2 * kColumnTiles % kGroup == 0, "groups of a lane's columns");
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int first = 0; first < 2 * kColumnTiles; first += kGroup) {
          Floats<kGroup> values;
#pragma unroll
          for (int x = 0; x < kGroup; ++x) values.v[x] = c[i][(first + x) / 2][2 * h + x % 2];
          use(first_row() + 16 * i + 8 * h + lane() / 4, own_column() + first, values);
        }
  }
};

/// What a lane multiplies of the weights [columns, k] of a product, kAhead steps before it needs it.
template <class T, class Tile, int kAhead>
class WeightStream {
 public:
  /// `row_of(column)`: the row of `weights`, whose rows have `num_k` elements, of a column of the block.
  template <class RowOf>
  __device__ __forceinline__ WeightStream(const T* weights, int num_k, const RowOf& row_of)
      : steps_(num_k / kStepElements<T>) {
    next_ = weights + Tile::lane() % 4 * kPer16<T>;
#pragma unroll
    for (int j = 0; j < Tile::kColumnTiles; ++j) offsets_[j] = row_of(Tile::weight_column(j)) * num_k;
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) load(slot);
  }

  /// tile += a[:, step] w[:, step]^T with the step in `slot`, which then receives the step kAhead later. `a`: the
  /// lane's first 16 bytes of the step.
  __device__ __forceinline__ void multiply_step(Tile& tile, int slot, const T* a, int stride) {
    uint32_t b[Tile::kColumnTiles][4];
#pragma unroll
    for (int j = 0; j < Tile::kColumnTiles; ++j) operand_words(b[j], ahead_[slot][j]);
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
      uint32_t low[4], high[4];
      operand_words(low, *reinterpret_cast<const uint4*>(a + 16 * i * stride));
      operand_words(high, *reinterpret_cast<const uint4*>(a + (16 * i + 8) * stride));
#pragma unroll
      for (int half = 0; half < 4; half += 2) {
        const uint32_t words[4] = {low[half], high[half], low[half + 1], high[half + 1]};
#pragma unroll
        for (int j = 0; j < Tile::kColumnTiles; ++j) multiply(tile.c[i][j], words, b[j][half], b[j][half + 1]);
      }
    }
    load(slot);
  }

 private:
  __device__ __forceinline__ void load(int slot) {
    if (loaded_ < steps_) {
#pragma unroll
      for (int j = 0; j < Tile::kColumnTiles; ++j)
        ahead_[slot][j] = __ldg(reinterpret_cast<const uint4*>(next_ + offsets_[j]));
    }
    next_ += kStepElements<T>;
    ++loaded_;
  }
  static __device__ __forceinline__ void operand_words(uint32_t (&words)[4], const uint4& packed) {
    words[0] = packed.x, words[1] = packed.y, words[2] = packed.z, words[3] = packed.w;
    if constexpr (sizeof(T) == 4)
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = to_tf32(__uint_as_float(words[i]));
  }
  static __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (sizeof(T) == 4)
      mma_tf32(c, a, b0, b1);
    else
      mma_half<T>(c, a, b0, b1);
  }

  const T* next_;
  int offsets_[Tile::kColumnTiles];
  int steps_, loaded_ = 0;
  uint4 ahead_[kAhead][Tile::kColumnTiles] = {};
};

/// tile += a w^T over the next `num_k` elements of k, a multiple of kAhead steps. `a`: [rows, num_k] in shared memory
/// with the row stride row_stride.
template <class T, class Tile, int kAhead>
__device__ __forceinline__ void add_product(Tile& tile, WeightStream<T, Tile, kAhead>& weights, const T* a, int num_k,
                                            int stride) {
  const T* own = a + (Tile::first_row() + Tile::lane() / 4) * stride + Tile::lane() % 4 * kPer16<T>;
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
  constexpr int kPieces = kColumns / kPer16<T>;  // of 16 bytes, of a row
  static_assert(kRows * kPieces % kBlockThreads == 0, "all threads copy equally many pieces");
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kBlockThreads) {
    const int row = i / kPieces, column = i % kPieces * kPer16<T>;
    const bool inside = row < steps;
    copy16(to + row * row_stride<T>(kColumns) + column, inside ? from + row * from_stride + column : from, inside);
  }
}

}  // namespace amdahl

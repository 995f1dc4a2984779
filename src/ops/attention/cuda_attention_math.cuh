// Device code of attention's products on the tensor cores. A warp has 16 rows of its own in shared memory and
// multiplies them with the rows of a tile that all warps of the block read.
//
// Two products, of own rows A [16, width], tile rows B [8 * kN, width] and weights W [16, 8 * kN]:
//   along: W += A B^T        across: out [16, width] += W B
// Accumulators are those of mma.m16n8: lane (g, t) = (lane / 4, lane % 4) holds c[0..1] in row slot g and c[2..3] in
// row slot g + 8, columns slots 2t and 2t + 1. own_row, tile_row and out_column say which rows and columns these slots
// are.
#pragma once

#include "ops/cuda_instructions.cuh"
#include "ops/cuda_mma.cuh"

namespace amdahl {

/// Rows of matrices in shared memory are kRowPad elements apart beyond their width, so that neither product has bank
/// conflicts.
inline constexpr int kRowPad = 8;

/// f32 operands. kExact: each product is three of tf32 parts, summed apart from the accumulator, because the tensor
/// cores truncate their sums; the result is about as exact as f32 arithmetic. Else operands are rounded to tf32.
///
/// All loads are of 16 bytes: `along` takes four neighbouring k per lane for two mma, `across` four neighbouring
/// columns for four. With rows kRowPad = 8 words apart modulo 32, the 8 lanes of a quarter warp reach all banks once if
/// neighbouring row slots are 2 rows apart modulo 4 (along), and rows of even, and of odd slots, are distinct modulo 4
/// (across). row_of_slot has both properties.
template <bool kExact>
struct FloatMath {
  using Element = float;
  static constexpr int kTile(int) { return 32; }  // rows of a tile, by width

  static __device__ __forceinline__ int row_of_slot(int slot) { return slot % 2 == 0 ? slot / 2 : 4 + (slot / 2 ^ 2); }
  static __device__ __forceinline__ int own_row(int lane, int high) { return row_of_slot(lane / 4) + 8 * high; }
  static __device__ __forceinline__ int tile_row(int lane, int j, int e) {
    return 8 * j + row_of_slot(2 * (lane % 4) + e);
  }
  static __device__ __forceinline__ int out_column(int lane, int j, int e) {
    return j / 4 * 32 + 4 * (2 * (lane % 4) + e) + j % 4;
  }

  /// The parts of an operand; without kExact, the rounded operand and nothing.
  struct Part {
    uint32_t high, low;
  };
  static __device__ __forceinline__ Part split(float x) {
    if constexpr (!kExact) return {to_tf32(x), 0};
    const uint32_t high = __float_as_uint(x) & 0xffffe000u;
    return {high, __float_as_uint(x - __uint_as_float(high))};
  }
  static __device__ __forceinline__ void multiply(float (&c)[4], const Part (&a)[4], const Part& b0, const Part& b1) {
    const uint32_t high[4] = {a[0].high, a[1].high, a[2].high, a[3].high};
    if constexpr (!kExact) return mma_tf32(c, high, b0.high, b1.high);
    const uint32_t low[4] = {a[0].low, a[1].low, a[2].low, a[3].low};
    float sum[4] = {};
    mma_tf32(sum, low, b0.high, b1.high);
    mma_tf32(sum, high, b0.low, b1.low);
    mma_tf32(sum, high, b0.high, b1.high);
#pragma unroll
    for (int i = 0; i < 4; ++i) c[i] += sum[i];
  }

  template <int kWidth, int kN>
  static __device__ __forceinline__ void along(float (&w)[kN][4], const float* own, const float* tile) {
    constexpr int kStride = kWidth + kRowPad;
    const int lane = threadIdx.x % 32, row = row_of_slot(lane / 4), k = 4 * (lane % 4);
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      const Quad low = load_quad(own + row * kStride + d + k), high = load_quad(own + (row + 8) * kStride + d + k);
      Part a[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          a[half][2 * i] = split(low.v[2 * half + i]);
          a[half][2 * i + 1] = split(high.v[2 * half + i]);
        }
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const Quad b = load_quad(tile + (8 * j + row) * kStride + d + k);
#pragma unroll
        for (int half = 0; half < 2; ++half) multiply(w[j], a[half], split(b.v[2 * half]), split(b.v[2 * half + 1]));
      }
    }
  }

  template <int kWidth, int kN>
  static __device__ __forceinline__ void across(float (&out)[kWidth / 8][4], const float (&w)[kN][4],
                                                const float* tile) {
    constexpr int kStride = kWidth + kRowPad;
    const int lane = threadIdx.x % 32, t = lane % 4, column = 4 * (lane / 4);
    const float *even = tile + row_of_slot(2 * t) * kStride + column,
                *odd = tile + row_of_slot(2 * t + 1) * kStride + column;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const Part a[4] = {split(w[j][0]), split(w[j][2]), split(w[j][1]), split(w[j][3])};
#pragma unroll
      for (int c = 0; c < kWidth / 32; ++c) {
        const Quad b0 = load_quad(even + 8 * j * kStride + 32 * c), b1 = load_quad(odd + 8 * j * kStride + 32 * c);
#pragma unroll
        for (int i = 0; i < 4; ++i) multiply(out[4 * c + i], a, split(b0.v[i]), split(b1.v[i]));
      }
    }
  }
};

/// bf16 or f16 operands, loaded by ldmatrix.
template <class T>
struct HalfMath {
  using Element = T;
  static constexpr int kTile(int width) { return width <= 64 ? 64 : 32; }

  static __device__ __forceinline__ int own_row(int lane, int high) { return lane / 4 + 8 * high; }
  static __device__ __forceinline__ int tile_row(int lane, int j, int e) { return 8 * j + 2 * (lane % 4) + e; }
  static __device__ __forceinline__ int out_column(int lane, int j, int e) { return 8 * j + 2 * (lane % 4) + e; }

  template <int kWidth, int kN>
  static __device__ __forceinline__ void along(float (&w)[kN][4], const T* own, const T* tile) {
    constexpr int kStride = kWidth + kRowPad;
    const int lane = threadIdx.x % 32;
    const T* own_at = own + lane % 16 * kStride + lane / 16 * 8;
    const T* tile_at = tile + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      uint32_t a[4];
      load_matrices(a, own_at + d);
#pragma unroll
      for (int j = 0; j < kN; j += 2) {
        uint32_t b[4];  // of columns slots 8j and 8j + 8
        load_matrices(b, tile_at + 8 * j * kStride + d);
        mma_half<T>(w[j], a, b[0], b[1]);
        mma_half<T>(w[j + 1], a, b[2], b[3]);
      }
    }
  }

  template <int kWidth, int kN>
  static __device__ __forceinline__ void across(float (&out)[kWidth / 8][4], const float (&w)[kN][4], const T* tile) {
    constexpr int kStride = kWidth + kRowPad;
    const int lane = threadIdx.x % 32;
    const T* tile_at = tile + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < kN; j += 2) {
      const uint32_t a[4] = {pack_pair<T>(w[j][0], w[j][1]), pack_pair<T>(w[j][2], w[j][3]),
                             pack_pair<T>(w[j + 1][0], w[j + 1][1]), pack_pair<T>(w[j + 1][2], w[j + 1][3])};
#pragma unroll
      for (int c = 0; c < kWidth / 8; c += 2) {
        uint32_t b[4];  // of columns 8c and 8c + 8
        load_transposed(b, tile_at + 8 * j * kStride + 8 * c);
        mma_half<T>(out[c], a, b[0], b[1]);
        mma_half<T>(out[c + 1], a, b[2], b[3]);
      }
    }
  }
};

}  // namespace amdahl

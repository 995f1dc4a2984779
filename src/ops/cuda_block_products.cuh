// Device code of products of matrices in shared memory on the tensor cores: what a warp loads and multiplies at a time.
//
// c[16 * kRows, 8 * kColumns] += A[16 * kRows, k] B[k, 8 * kColumns]. Each operand is stored either along k (its k are
// neighbours) or across k. Accumulators are those of mma.m16n8: lane (g, t) = (lane / 4, lane % 4) holds c[0..1] in row
// g, columns 2t and 2t + 1, and c[2..3] in row g + 8.
//
#pragma once

#include <cstdint>

#include "ops/cuda_instructions.cuh"
#include "ops/cuda_mma.cuh"

namespace amdahl {

/// Rows of matrices in shared memory are kOperandPad elements longer than a multiple of 32 banks. Then the loads below
/// have no bank conflicts, but for f32 along k, two; rows of f32 that are 4 elements longer have none of these.
inline constexpr int kOperandPad = 8;

enum class Stored { along_k, across_k };

/// Operands of 16-bit elements: 16 k at a time, loaded by ldmatrix.
template <class Element>
struct BlockProducts {
  static constexpr int kDepth = 16;  // k of an mma
  using A = uint32_t[4];             // 16 rows
  using B = uint32_t[4];             // two tiles of 8 columns

  /// Rows from 0 of a matrix whose rows (along k: of A; across k: of k) are `stride` elements apart.
  template <Stored kStored>
  static __device__ __forceinline__ void load_a(A& a, const Element* matrix, int stride) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kStored == Stored::along_k)
      load_matrices(a, matrix + lane % 16 * stride + lane / 16 * 8);
    else
      load_transposed(a, matrix + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8);
  }
  /// `second`: distance of the second tile of columns from the first, 8 or 0.
  template <Stored kStored>
  static __device__ __forceinline__ void load_b(B& b, const Element* matrix, int stride, int second = 8) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kStored == Stored::along_k)
      load_matrices(b, matrix + (lane / 16 * second + lane % 8) * stride + lane / 8 % 2 * 8);
    else
      load_transposed(b, matrix + lane % 16 * stride + lane / 16 * second);
  }
  static __device__ __forceinline__ void multiply_low(float (&c)[4], const A& a, const B& b) {
    mma_half<Element>(c, a, b[0], b[1]);
  }
  static __device__ __forceinline__ void multiply_high(float (&c)[4], const A& a, const B& b) {
    mma_half<Element>(c, a, b[2], b[3]);
  }
};

/// f32 elements, rounded to tf32: 8 k at a time.
template <>
struct BlockProducts<float> {
  static constexpr int kDepth = 8;
  using A = uint32_t[4];
  using B = uint32_t[4];

  template <Stored kStored>
  static __device__ __forceinline__ void load_a(A& a, const float* matrix, int stride) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kStored == Stored::along_k) {
      load_matrices(a, matrix + lane % 16 * stride + lane / 16 * 4);  // rows of four words
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = to_tf32(__uint_as_float(a[i]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = to_tf32(matrix[(lane % 4 + i / 2 * 4) * stride + lane / 4 + i % 2 * 8]);
    }
  }
  template <Stored kStored>
  static __device__ __forceinline__ void load_b(B& b, const float* matrix, int stride, int second = 8) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kStored == Stored::along_k) {
      load_matrices(b, matrix + (lane / 16 * second + lane % 8) * stride + lane / 8 % 2 * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = to_tf32(__uint_as_float(b[i]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = to_tf32(matrix[(lane % 4 + i % 2 * 4) * stride + lane / 4 + i / 2 * second]);
    }
  }
  static __device__ __forceinline__ void multiply_low(float (&c)[4], const A& a, const B& b) {
    mma_tf32(c, a, b[0], b[1]);
  }
  static __device__ __forceinline__ void multiply_high(float (&c)[4], const A& a, const B& b) {
    mma_tf32(c, a, b[2], b[3]);
  }
};

/// Offset of element (row, k) of an operand in a matrix with that storage.
template <Stored kStored>
__device__ __forceinline__ int operand_offset(int row, int k, int stride) {
  return kStored == Stored::along_k ? row * stride + k : k * stride + row;
}

/// An operand in shared memory: its first element, and the distance of its stored rows.
template <class Element, Stored kStorage>
struct Operand {
  static constexpr Stored kStored = kStorage;
  const Element* matrix;
  int stride;
  __device__ __forceinline__ const Element* at(int row, int k) const {
    return matrix + operand_offset<kStored>(row, k, stride);
  }
};

/// Adds the product over k in [begin, end), a multiple of kDepth, to a warp's sums. Of the kColumns tiles of columns
/// only the first `columns` are computed.
template <class Element, int kRows, int kColumns, class A, class B>
__device__ __forceinline__ void multiply_matrices(float (&c)[kRows][kColumns][4], const A& a, const B& b, int begin,
                                                  int end, int columns = kColumns) {
  static_assert(kColumns % 2 == 0, "B is loaded in pairs of tiles");
  using Products = BlockProducts<Element>;
#pragma unroll 2
  for (int k = begin; k < end; k += Products::kDepth) {
    typename Products::A rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) Products::template load_a<A::kStored>(rows[i], a.at(16 * i, k), a.stride);
#pragma unroll
    for (int j = 0; j < kColumns; j += 2) {
      if (j >= columns) break;
      const bool both = j + 1 < columns;
      typename Products::B pair;
      Products::template load_b<B::kStored>(pair, b.at(8 * j, k), b.stride, both ? 8 : 0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        Products::multiply_low(c[i][j], rows[i], pair);
        if (j + 1 < kColumns && both) Products::multiply_high(c[i][j + 1], rows[i], pair);
      }
    }
  }
}

}  // namespace amdahl

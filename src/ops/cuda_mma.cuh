// Device helpers: matrix fragments loaded from global memory directly into tensor-core registers, 16 values of k at a
// time.
//
// The order of k within a chunk is free as long as both operands use the same one, so a lane takes the four k of one
// 16-byte load; likewise it takes four neighbouring rows or columns where those are contiguous instead. The lanes of a
// warp are (g, t) = (lane / 4, lane % 4), as in the figures of mma.m16n8k8 and mma.m16n8k16 in the PTX manual.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace amdahl {

/// Four k values of one row of A or one column of B, in the precision of the GEMM.
template <MathMode kMath>
struct Fragment {
  uint32_t r[kMath == MathMode::tf32 ? 4 : 2];
};

struct Quad {
  float v[4];
};

/// tf32 by truncation: the tensor cores ignore the low 13 bits. Scaling first makes the mean truncation error zero;
/// values that tf32 represents exactly do not change, nor do infinities and NaN. Explicit rounding takes three
/// instructions.
__device__ __forceinline__ uint32_t to_tf32(float value) {
  constexpr float kStretch = 1.0f + 0.6931472f / 2048;  // mean mantissa 1 / ln 2, mean truncation error half of 2^-10
  return __float_as_uint(value * kStretch);
}

template <MathMode kMath>
__device__ __forceinline__ Fragment<kMath> make_fragment(float k0, float k1, float k2, float k3) {
  Fragment<kMath> f;
  if constexpr (kMath == MathMode::tf32) {
    f.r[0] = to_tf32(k0), f.r[1] = to_tf32(k1), f.r[2] = to_tf32(k2), f.r[3] = to_tf32(k3);
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(f.r[0]) : "f"(k1), "f"(k0));  // the first operand goes to the upper half
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(f.r[1]) : "f"(k3), "f"(k2));
  }
  return f;
}

/// c[16,8] += A[16,16] B[16,8]. The lane supplies rows g (`low`) and g + 8 (`high`) of A and column g of B, and holds
/// c[0..1] = (g, 2t..2t+1) and c[2..3] = (g + 8, 2t..2t+1).
template <MathMode kMath>
__device__ __forceinline__ void multiply(float (&c)[4], const Fragment<kMath>& low, const Fragment<kMath>& high,
                                         const Fragment<kMath>& b) {
  if constexpr (kMath == MathMode::tf32) {
#pragma unroll
    for (int half = 0; half < 4; half += 2)
      asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(low.r[half]), "r"(high.r[half]), "r"(low.r[half + 1]), "r"(high.r[half + 1]), "r"(b.r[half]),
            "r"(b.r[half + 1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(low.r[0]), "r"(high.r[0]), "r"(low.r[1]), "r"(high.r[1]), "r"(b.r[0]), "r"(b.r[1]));
  }
}

/// Index within a chunk's 16 k of the lane's i-th: four consecutive ones for one vector load, else interleaved over
/// four lanes.
template <bool kVector>
__device__ __forceinline__ int k_of(int t, int i) {
  return kVector ? 4 * t + i : t + 4 * i;
}

__device__ __forceinline__ Quad load_quad(const float* pointer) {
  const float4 packed = *reinterpret_cast<const float4*>(pointer);
  return {{packed.x, packed.y, packed.z, packed.w}};
}

/// How 32 neighbouring columns are distributed to the 8 values of g, four each: n is g, j the index among its four.
template <bool kVector>
__device__ __forceinline__ int column_of(int n, int j) {
  // Lanes with neighbouring g take neighbouring columns, so a quarter of a warp loads whole 32-byte sectors.
  return kVector ? 4 * n + j : 8 * j + n;
}

/// Reads an operand whose k are contiguous: kCount rows (of A, or columns of B), 8 apart, from `first` + g on. Rows
/// past the end repeat the last one; their results are never stored.
template <bool kVector, int kCount>
class AlongK {
 public:
  __device__ AlongK(const float* matrix, int stride, int first, int num_rows, int k, int num_k, int lane)
      : k_(k + k_of<kVector>(lane % 4, 0)), num_k_(num_k) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      rows_[i] = matrix + static_cast<int64_t>(min(first + lane / 4 + 8 * i, num_rows - 1)) * stride + k_;
  }
  /// Quad i holds the lane's four k of row i, `ahead` past the current k; with kGuard, zeros past the last k.
  template <bool kGuard>
  __device__ __forceinline__ void load(Quad (&quads)[kCount], int ahead) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kGuard) quads[i] = {};
      if constexpr (kVector) {
        if (!kGuard || k_ + ahead < num_k_) quads[i] = load_quad(rows_[i] + ahead);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!kGuard || k_ + ahead + 4 * e < num_k_) quads[i].v[e] = rows_[i][ahead + 4 * e];
      }
    }
  }
  __device__ __forceinline__ void advance(int by) {
    k_ += by;
#pragma unroll
    for (int i = 0; i < kCount; ++i) rows_[i] += by;
  }
  template <MathMode kMath>
  static __device__ __forceinline__ Fragment<kMath> fragment(const Quad (&quads)[kCount], int i) {
    return make_fragment<kMath>(quads[i].v[0], quads[i].v[1], quads[i].v[2], quads[i].v[3]);
  }

 private:
  const float* rows_[kCount];
  int k_, num_k_;
};

/// Reads an operand that is contiguous across k: 32 neighbouring columns from `first` on, distributed by
/// column_of<kVector>; columns past the end repeat a valid one. `kVectorK` selects the k order of the other operand
/// (k_of).
template <bool kVectorK, bool kVector>
class AcrossK {
 public:
  __device__ AcrossK(const float* matrix, int stride, int first, int width, int k, int num_k, int lane)
      : k_(k + k_of<kVectorK>(lane % 4, 0)), num_k_(num_k), stride_(stride) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      columns_[j] = min(first + column_of<kVector>(lane / 4, j), kVector ? width - 4 : width - 1);
    row_ = matrix + static_cast<int64_t>(k_) * stride;
  }
  /// Quad i holds the lane's four columns of its i-th k.
  template <bool kGuard>
  __device__ __forceinline__ void load(Quad (&quads)[4], int ahead) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int skip = ahead + k_of<kVectorK>(0, i);
      const float* row = row_ + skip * stride_;
      if constexpr (kGuard) quads[i] = {};
      if (kGuard && k_ + skip >= num_k_) continue;
      if constexpr (kVector) {
        quads[i] = load_quad(row + columns_[0]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) quads[i].v[j] = row[columns_[j]];
      }
    }
  }
  __device__ __forceinline__ void advance(int by) {
    k_ += by;
    row_ += static_cast<int64_t>(by) * stride_;
  }
  template <MathMode kMath>
  static __device__ __forceinline__ Fragment<kMath> fragment(const Quad (&quads)[4], int j) {
    return make_fragment<kMath>(quads[0].v[j], quads[1].v[j], quads[2].v[j], quads[3].v[j]);
  }

 private:
  const float* row_;
  int columns_[4];
  int k_, num_k_, stride_;
};

/// A warp's accumulators of c[16 * kRowTiles, 32], in the layout of multiply().
template <int kRowTiles>
struct Sums {
  float c[kRowTiles][4][4] = {};
};

template <int kRowTiles>
struct Chunk {
  Quad a[2 * kRowTiles], b[4];
};

template <MathMode kMath, class A, class B, int kRowTiles>
__device__ __forceinline__ void multiply_chunk(Sums<kRowTiles>& sums, const Chunk<kRowTiles>& chunk) {
  Fragment<kMath> a[2 * kRowTiles];
#pragma unroll
  for (int i = 0; i < 2 * kRowTiles; ++i) a[i] = A::template fragment<kMath>(chunk.a, i);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const Fragment<kMath> b = B::template fragment<kMath>(chunk.b, j);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) multiply<kMath>(sums.c[i][j], a[2 * i], a[2 * i + 1], b);
  }
}

/// Adds `count` chunks of 16 k, kStep k apart, and then, if `tail`, one that reaches past the last k. Loads are
/// double-buffered; `meanwhile` runs during the first. The code is kept short, because instruction fetch matters in a
/// chain of short kernels.
template <MathMode kMath, int kStep, class A, class B, int kRowTiles, class Meanwhile>
__device__ __forceinline__ void sum_chunks(Sums<kRowTiles>& sums, A& a, B& b, int count, bool tail,
                                           const Meanwhile& meanwhile) {
  Chunk<kRowTiles> even, odd;
  const auto load = [&](Chunk<kRowTiles>& chunk, int ahead) {
    b.template load<false>(chunk.b, ahead);
    a.template load<false>(chunk.a, ahead);
  };
  if (count > 0) load(even, 0);
  meanwhile();
#pragma unroll 1
  for (; count > 1; count -= 2) {
    load(odd, kStep);
    multiply_chunk<kMath, A, B>(sums, even);
    a.advance(2 * kStep), b.advance(2 * kStep);
    if (count > 2) load(even, 0);
    multiply_chunk<kMath, A, B>(sums, odd);
  }
  if (count > 0) {
    multiply_chunk<kMath, A, B>(sums, even);
    a.advance(kStep), b.advance(kStep);
  }
  if (!tail) return;
  b.template load<true>(odd.b, 0);
  a.template load<true>(odd.a, 0);
  multiply_chunk<kMath, A, B>(sums, odd);
}

}  // namespace amdahl

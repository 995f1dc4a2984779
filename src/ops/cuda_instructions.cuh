// PTX instructions as functions: matrix products of tensor cores, copies into shared memory, barriers of clusters.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace amdahl {

// ---- Tensor cores. Lanes are (g, t) = (lane / 4, lane % 4), as in the figures of the PTX manual. ----

/// c[16,8] += A[16,8] B[8,8] of tf32. The lane supplies rows g and g + 8 of A at k = t (a[0], a[1]) and k = t + 4
/// (a[2], a[3]), column g of B at these k, and holds c[0..1] = (g, 2t..2t+1) and c[2..3] = (g + 8, 2t..2t+1).
__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c[16,8] += A[16,16] B[16,8] of T, bf16 or f16: as mma_tf32, with the pair k = 2t, 2t + 1 in place of k = t and the
/// pair k = 2t + 8, 2t + 9 in place of k = t + 4.
template <class T>
__device__ __forceinline__ void mma_half(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two floats rounded to T, `low` in the lower half.
template <class T>
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
  uint32_t packed;
  if constexpr (std::is_same_v<T, __half>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// Four 8x8 matrices of 16-bit elements from shared memory; lane 8i + r gives the address of row r of matrix i. r[i]
/// holds elements (g, 2t..2t+1) of matrix i, or (2t..2t+1, g) of transposed ones.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void* row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const void* row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

// ---- Arithmetic. ----

/// 2^x to 2 units in the last place; results below the normal range become zero.
__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// ---- Asynchronous copies into shared memory. ----

/// Starts a copy of 16 bytes into shared memory, or of zeros.
__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy4(void* to, const void* from, bool inside) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(inside ? 4 : 0) : "memory");
}
/// Ends a group of copies.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups but the last kPending of this thread.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- Clusters of blocks. ----

/// Rank of this block in its (one-dimensional) cluster, and the cluster's size.
struct ClusterPlace {
  int rank, size;
};

__device__ __forceinline__ ClusterPlace cluster_place() {
  ClusterPlace place;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(place.rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(place.size));
  return place;
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Waits until every thread of the cluster has arrived at the cluster barrier.
__device__ __forceinline__ void wait_for_peers() {
  __syncwarp();  // its lanes execute the instruction together
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace amdahl

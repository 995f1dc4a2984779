// Device helpers: messages between the blocks of a cluster that are counted by arrivals, meetings of two warps, the
// transposition of a matrix over a warp, and conversions of f32.
#pragma once

#include <cstdint>

#include "ops/cuda_cluster.cuh"

namespace amdahl {

// ---- Conversions. ----

__device__ __forceinline__ uint32_t round_to_tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));  // the first operand goes to the upper half
  return bits;
}

// ---- Messages. An arrival is an mbarrier that completes a phase when all expected bytes were received. ----

/// The address of `local`, an address in this block's shared memory, in block `rank` of the cluster.
__device__ __forceinline__ uint32_t address_in_block(uint32_t local, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(rank));
  return there;
}

/// By one thread. Make it visible to the cluster with publish_arrivals before the first message.
__device__ __forceinline__ void create_arrival(uint32_t arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrival) : "memory");
}
__device__ __forceinline__ void publish_arrivals() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// By one thread, once per phase: the phase ends when `bytes` were received. May follow the first of its messages.
__device__ __forceinline__ void expect_bytes(uint32_t arrival, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrival), "r"(bytes) : "memory");
}
/// Waits for the end of the phase with that parity; what was received is then visible to this thread.
__device__ __forceinline__ void wait_for_phase(uint32_t arrival, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(arrival), "r"(parity)
        : "memory");
}
/// Stores 16 bytes in the shared memory of a block of the cluster, and counts them at its arrival.
__device__ __forceinline__ void send_16_bytes(uint32_t to, uint32_t arrival_there, const uint4& value) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(arrival_there)
      : "memory");
}
__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// ---- Two warps that meet at a hardware barrier, numbered from 1. ----

__device__ __forceinline__ void meet(int barrier) { asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void announce(int barrier) { asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory"); }

// ---- Transposition of an 8 x 8 matrix over a warp: from (row g, columns 2t, 2t + 1) to (column g, rows 2t, 2t + 1).
// ----

__device__ __forceinline__ uint32_t transpose_halves(uint32_t pair) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
  return out;
}
__device__ __forceinline__ void transpose_words(uint32_t (&pair)[2]) {
  const uint32_t low = transpose_halves(__byte_perm(pair[0], pair[1], 0x5410));
  const uint32_t high = transpose_halves(__byte_perm(pair[0], pair[1], 0x7632));
  pair[0] = __byte_perm(low, high, 0x5410);
  pair[1] = __byte_perm(low, high, 0x7632);
}

}  // namespace amdahl

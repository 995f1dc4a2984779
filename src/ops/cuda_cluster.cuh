// Device helpers: thread-block clusters, and asynchronous stores to a peer block's shared memory that are received
// through an mbarrier.
#pragma once

#include <cstdint>

#include "ops/cuda_instructions.cuh"

namespace amdahl {

/// Initialises `arrival`, which completes once `bytes` were received, and arrives at the cluster barrier: call
/// wait_for_peers before the first send. Called by the whole block.
__device__ __forceinline__ void open_arrival(uint64_t* arrival, uint32_t bytes) {
  const uint32_t at = shared_address(arrival);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
  }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // relaxed: the fence above suffices
}

/// Stores `value` at the address of `place` in block `rank` of the cluster, and counts its 16 bytes at that block's
/// `arrival`.
__device__ __forceinline__ void send_to_peer(const float4* place, const uint64_t* arrival, int rank,
                                             const float4& value) {
  uint32_t to, arrival_there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(place)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(arrival_there) : "r"(shared_address(arrival)), "r"(rank));
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(arrival_there)
      : "memory");
}

/// Waits until all expected bytes have arrived; they are then visible to this thread.
__device__ __forceinline__ void wait_for_arrival(uint64_t* arrival) {
  const uint32_t at = shared_address(arrival);
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(at)
        : "memory");
}

}  // namespace amdahl

// Flags between GPUs, for kernels: written with release and read with acquire at system scope.
#pragma once

#include <cstdint>

#include "device/cuda_peer_watch.h"

namespace amdahl {

__device__ __forceinline__ uint64_t load_acquire(const uint64_t* flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void store_release(uint64_t* flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t now_ns() {
  uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

/// Whether a wait that began at `start` is given up: by the host, by this device before (*broken), or because the time
/// is over, which the report then says. Looks at the clock and at host memory, which is far away: not at every poll.
__device__ inline bool wait_is_over(uint64_t start, int from, const volatile unsigned* broken,
                                    PeerReport* shared_report, uint64_t timeout_ns) {
  volatile PeerReport* report = shared_report;
  if (*broken || report->give_up) return true;
  if (now_ns() - start < timeout_ns) return false;
  report->missing_rank = static_cast<unsigned>(from) + 1;
  __threadfence_system();
  return true;
}

/// Waits until `flag`, which rank `from` writes, has reached `number`. False once the wait is given up.
__device__ inline bool await_flag(const uint64_t* flag, uint64_t number, int from, const volatile unsigned* broken,
                                  PeerReport* report, uint64_t timeout_ns) {
  constexpr unsigned kPollsPerLook = 256;
  if (load_acquire(flag) >= number) return true;
  const uint64_t start = now_ns();
  for (unsigned poll = 1;; ++poll) {
    if (load_acquire(flag) >= number) return true;
    if (poll % kPollsPerLook == 0 && wait_is_over(start, from, broken, report, timeout_ns)) return false;
  }
}

/// Ends a block's part of round `number` of ranks that meet in `own->ended` rounds so far; the last block to come ends
/// the round, `all_came` or not. By one thread.
template <class Inbox>
__device__ __forceinline__ void end_round(Inbox* own, uint64_t number, bool all_came) {
  if (!all_came) own->broken = 1;
  __threadfence();
  if (atomicAdd(&own->finished_blocks, 1u) != gridDim.x - 1) return;
  own->finished_blocks = 0;
  own->ended = number;
}

}  // namespace amdahl

// One-sided communication in kernels that can access the memory of all ranks of a team. cpu_symmetric.h is the
// counterpart for CPU code.
//
// Signals are stored with release and loaded with acquire order at system scope. A release covers the writes of the
// storing thread, and those of other threads of its block before a __syncthreads(). Data that peers write are read by
// loads that bypass L1 (__ldcg) or after an acquire, never through the read-only path.
#pragma once

#include <cstdint>

#include "symmetric/team_view.h"

namespace amdahl::symmetric_cuda {

__device__ __forceinline__ TeamFlags* flags_of(const TeamView& team, int rank) {
  return reinterpret_cast<TeamFlags*>(team.base[rank]);
}
/// Address in `rank`'s memory of the symmetric object at `local` in this rank's memory.
template <class T>
__device__ __forceinline__ T* peer(const TeamView& team, T* local, int rank) {
  return reinterpret_cast<T*>(team.base[rank] + (reinterpret_cast<const char*>(local) - team.base[team.rank]));
}

__device__ __forceinline__ uint64_t load_acquire(const Signal* signal) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(&signal->value) : "memory");
  return value;
}
/// Two words of one place, each whole; one can be newer than the other.
__device__ __forceinline__ void load_acquire(const uint64_t* place, uint64_t (&words)[2]) {
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(place) : "memory");
}
__device__ __forceinline__ void store_release(Signal* signal, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&signal->value), "l"(value) : "memory");
}

/// Copies `count` elements to the object `to` of `rank`. Called by all threads of a block.
template <class T>
__device__ __forceinline__ void put(const TeamView& team, T* to, const T* from, int64_t count, int rank) {
  T* there = peer(team, to, rank);
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) there[i] = from[i];
}
/// Copies `count` elements from the object `from` of `rank`. Called by all threads of a block.
template <class T>
__device__ __forceinline__ void get(const TeamView& team, T* to, const T* from, int64_t count, int rank) {
  const T* there = peer(team, const_cast<T*>(from), rank);
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = __ldcg(there + i);
}
/// Orders this thread's earlier puts, and those of other threads of its block before a __syncthreads(), before its
/// later ones. Not sequentially consistent, which costs more: a release and an acquire.
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
/// Returns once these puts are complete.
__device__ __forceinline__ void quiet() { fence(); }
/// put, then the signal is stored after the elements of all threads.
template <class T>
__device__ __forceinline__ void put_signal(const TeamView& team, T* to, const T* from, int64_t count, Signal* signal,
                                           uint64_t value, int rank) {
  put(team, to, from, count, rank);
  __syncthreads();
  if (threadIdx.x == 0) store_release(peer(team, signal, rank), value);
}
/// Messages of up to a few KB in packets of 16 bytes, 8 of them data, each 4 with a flag of 4 bytes (LL of NCCL): no
/// fence, one hop. `packets`: a symmetric object of twice the message's size rounded up to 8 bytes, initially zero. The
/// receiver must have taken a message before the next one is put there. `flag`: not 0, and another one than that of
/// earlier messages in this object. Called by all threads of a block, `from` and `to` at multiples of 8 bytes.
__device__ __forceinline__ void put_packets(const TeamView& team, uint64_t* packets, const char* from, size_t bytes,
                                            uint32_t flag, int rank) {
  uint64_t* const there = peer(team, packets, rank);
  const uint64_t high = uint64_t{flag} << 32;
  for (size_t i = threadIdx.x; i * sizeof(uint64_t) < bytes; i += blockDim.x) {
    uint64_t word = 0;
    if ((i + 1) * sizeof(word) <= bytes)
      word = *reinterpret_cast<const uint64_t*>(from + i * sizeof(word));
    else
      for (size_t k = i * sizeof(word); k < bytes; ++k)
        word |= uint64_t{static_cast<unsigned char>(from[k])} << 8 * (k % sizeof(word));
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(there + 2 * i), "l"(high | (word & 0xffffffffu)),
                 "l"(high | word >> 32)
                 : "memory");
  }
}
/// Adds atomically to the object `to` of `rank`; returns the previous value. Called by one thread. The GPUs must have
/// native peer atomics (list_cuda_peers).
__device__ __forceinline__ uint64_t fetch_add(const TeamView& team, uint64_t* to, uint64_t value, int rank) {
  auto* there = reinterpret_cast<unsigned long long*>(peer(team, to, rank));
  return atomicAdd_system(there, static_cast<unsigned long long>(value));
}

__device__ __forceinline__ uint64_t now_ns() {
  uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}
/// Whether a wait that began at `start` must end: the host ended it, an earlier wait of this rank was abandoned, or it
/// timed out, and then the report names the missing rank `from`. Reads the clock and host memory, which is slow: do not
/// call it at every poll.
__device__ inline bool wait_is_over(const TeamView& team, uint64_t start, int from) {
  volatile WaitReport* report = team.report;
  const volatile unsigned* broken = &flags_of(team, team.rank)->broken;
  if (*broken || report->give_up) return true;
  if (now_ns() - start < team.timeout_ns) return false;
  report->missing_rank = static_cast<unsigned>(from) + 1;
  __threadfence_system();
  return true;
}
/// Polls between two looks at whether a wait is over.
inline constexpr unsigned kPollsPerLook = 256;
/// wait_is_over of a wait that reads the clock at its first look: most waits are shorter. `start` is 0 before it.
__device__ __forceinline__ bool look_is_last(const TeamView& team, uint64_t& start, int from) {
  if (start == 0) start = now_ns();
  return wait_is_over(team, start, from);
}
/// Polls until `ready()`, which depends on writes of rank `from`. False when the wait is abandoned.
template <class Ready>
__device__ __forceinline__ bool wait_for(const TeamView& team, int from, const Ready& ready) {
  uint64_t start = 0;
  for (unsigned poll = 1;; ++poll) {
    if (ready()) return true;
    if (poll % kPollsPerLook == 0 && look_is_last(team, start, from)) return false;
  }
}
/// Takes a message of rank `from` that put_packets wrote to `packets` of this rank. Called by all threads of a block.
/// Returns the same value to all: false after an abandoned wait. On return all threads see the message.
__device__ __forceinline__ bool take_packets(const TeamView& team, const uint64_t* packets, char* to, size_t bytes,
                                             uint32_t flag, int from) {
  bool complete = true;
  for (size_t i = threadIdx.x; complete && i * sizeof(uint64_t) < bytes; i += blockDim.x) {
    uint64_t low = 0, high = 0;
    complete = wait_for(team, from, [&] {
      asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                   : "=l"(low), "=l"(high)
                   : "l"(packets + 2 * i)
                   : "memory");
      return low >> 32 == flag && high >> 32 == flag;
    });
    const uint64_t word = high << 32 | (low & 0xffffffffu);
    if ((i + 1) * sizeof(word) <= bytes)
      *reinterpret_cast<uint64_t*>(to + i * sizeof(word)) = word;
    else
      for (size_t k = i * sizeof(word); k < bytes; ++k) to[k] = static_cast<char>(word >> 8 * (k % sizeof(word)));
  }
  return __syncthreads_and(complete) != 0;
}
/// Waits until `signal`, in this rank's memory and stored by rank `from`, is at least `value`.
__device__ __forceinline__ bool wait_until(const TeamView& team, const Signal* signal, uint64_t value, int from) {
  return wait_for(team, from, [&] { return load_acquire(signal) >= value; });
}

/// Number of this kernel's round. It ends with end_round, or with finish_block and advance.
__device__ __forceinline__ uint64_t this_round(const TeamView& team) { return flags_of(team, team.rank)->epoch + 1; }
/// Whether a wait of this rank was abandoned, so that the round must do nothing. Another block can change it any time.
__device__ __forceinline__ bool is_broken(const TeamView& team) {
  return *static_cast<volatile unsigned*>(&flags_of(team, team.rank)->broken) != 0;
}
__device__ __forceinline__ void set_broken(const TeamView& team) { flags_of(team, team.rank)->broken = 1; }

/// Waits until all ranks have arrived at barrier `index` of round `epoch`. `arrives`: this block, exactly one per rank,
/// arrives for its rank. Called by all threads of a block, which must be at least as many as ranks. Returns the same
/// value to all threads: false after an abandoned wait of this rank, now or earlier. On return, the writes of the
/// arriving blocks before a __syncthreads(), and those of earlier kernels of their streams, are visible.
__device__ __forceinline__ bool arrive_and_wait(const TeamView& team, int index, uint64_t epoch, bool arrives) {
  const int other = static_cast<int>(threadIdx.x);
  bool arrived = !is_broken(team);
  if (arrived && other < team.size && other != team.rank) {
    if (arrives) store_release(&flags_of(team, other)->arrived[index][team.rank], epoch);
    arrived = wait_until(team, &flags_of(team, team.rank)->arrived[index][other], epoch, other);
  }
  return __syncthreads_and(arrived);
}

/// Counts this block as finished; true for the last one of the kernel. Called by one thread.
__device__ __forceinline__ bool finish_block(const TeamView& team) {
  return atomicAdd(&flags_of(team, team.rank)->finished_blocks, 1u) + 1 == gridDim.x;
}
/// Ends the round. Called by one thread of the block that finished last.
__device__ __forceinline__ void advance(const TeamView& team, uint64_t epoch) {
  flags_of(team, team.rank)->finished_blocks = 0;
  flags_of(team, team.rank)->epoch = epoch;
}
/// Ends this block's part of the round; the last block ends the round. `complete`: no wait was abandoned. Called by one
/// thread of each block.
__device__ __forceinline__ void end_round(const TeamView& team, uint64_t epoch, bool complete) {
  if (!complete) set_broken(team);
  __threadfence();
  if (finish_block(team)) advance(team, epoch);
}

/// A round of one barrier. Called by all threads of a kernel of one block, any number of times.
__device__ __forceinline__ bool barrier(const TeamView& team) {
  const uint64_t epoch = this_round(team);
  __syncthreads();  // the barrier covers earlier writes of all threads
  const bool complete = arrive_and_wait(team, 0, epoch, true);
  if (threadIdx.x == 0) end_round(team, epoch, complete);
  __syncthreads();  // all threads see the next round's number
  return complete;
}

}  // namespace amdahl::symmetric_cuda

// One-sided communication by kernels, which reach the memory of all ranks of a team. cpu_symmetric.h has the same for
// CPU code.
//
// Signals are stored with release and loaded with acquire at system scope. A release covers what the storing thread has
// written, and what other threads of its block have written before a __syncthreads(). Data that peers write are read by
// plain loads past L1 (__ldcg) or after an acquire, never through the read-only path.
#pragma once

#include <cstdint>

#include "symmetric/team_view.h"

namespace amdahl::symmetric_cuda {

__device__ __forceinline__ TeamFlags* flags_of(const TeamView& team, int rank) {
  return reinterpret_cast<TeamFlags*>(team.base[rank]);
}
/// Where `rank` has what lies at `local` in this rank's symmetric memory.
template <class T>
__device__ __forceinline__ T* peer(const TeamView& team, T* local, int rank) {
  return reinterpret_cast<T*>(team.base[rank] + (reinterpret_cast<const char*>(local) - team.base[team.rank]));
}

__device__ __forceinline__ uint64_t load_acquire(const Signal* signal) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(&signal->value) : "memory");
  return value;
}
__device__ __forceinline__ void store_release(Signal* signal, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&signal->value), "l"(value) : "memory");
}

/// `count` elements to where `rank` has `to`, by all threads of a block.
template <class T>
__device__ __forceinline__ void put(const TeamView& team, T* to, const T* from, int64_t count, int rank) {
  T* there = peer(team, to, rank);
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) there[i] = from[i];
}
/// `count` elements from where `rank` has `from`, by all threads of a block.
template <class T>
__device__ __forceinline__ void get(const TeamView& team, T* to, const T* from, int64_t count, int rank) {
  const T* there = peer(team, const_cast<T*>(from), rank);
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = __ldcg(there + i);
}
/// Orders this thread's puts before its later ones.
__device__ __forceinline__ void fence() { __threadfence_system(); }
/// Returns once this thread's puts are done.
__device__ __forceinline__ void quiet() { __threadfence_system(); }
/// The same as put; the signal is stored once the elements of all threads are there.
template <class T>
__device__ __forceinline__ void put_signal(const TeamView& team, T* to, const T* from, int64_t count, Signal* signal,
                                           uint64_t value, int rank) {
  put(team, to, from, count, rank);
  __syncthreads();
  if (threadIdx.x == 0) store_release(peer(team, signal, rank), value);
}
/// Adds to where `rank` has `to`, atomically over all ranks; returns what was there before. By one thread. The GPUs
/// must have native peer atomics (list_cuda_peers).
__device__ __forceinline__ uint64_t fetch_add(const TeamView& team, uint64_t* to, uint64_t value, int rank) {
  auto* there = reinterpret_cast<unsigned long long*>(peer(team, to, rank));
  return atomicAdd_system(there, static_cast<unsigned long long>(value));
}

__device__ __forceinline__ uint64_t now_ns() {
  uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}
/// Whether a wait that began at `start` is given up: by the host, by this rank before, or because the time is over, and
/// then the report names `from`. Looks at the clock and at host memory, which is far away: not at every poll.
__device__ inline bool wait_is_over(const TeamView& team, uint64_t start, int from) {
  volatile WaitReport* report = team.report;
  const volatile unsigned* broken = &flags_of(team, team.rank)->broken;
  if (*broken || report->give_up) return true;
  if (now_ns() - start < team.timeout_ns) return false;
  report->missing_rank = static_cast<unsigned>(from) + 1;
  __threadfence_system();
  return true;
}
/// Polls until `ready()`, for what rank `from` writes. False once the wait is given up.
template <class Ready>
__device__ __forceinline__ bool wait_for(const TeamView& team, int from, const Ready& ready) {
  constexpr unsigned kPollsPerLook = 256;
  if (ready()) return true;
  const uint64_t start = now_ns();
  for (unsigned poll = 1;; ++poll) {
    if (ready()) return true;
    if (poll % kPollsPerLook == 0 && wait_is_over(team, start, from)) return false;
  }
}
/// Waits until `signal`, in this rank's memory and stored by rank `from`, is `value` or more.
__device__ __forceinline__ bool wait_until(const TeamView& team, const Signal* signal, uint64_t value, int from) {
  return wait_for(team, from, [&] { return load_acquire(signal) >= value; });
}

/// The round that this kernel is. It ends by end_round, or finish_block and advance.
__device__ __forceinline__ uint64_t this_round(const TeamView& team) { return flags_of(team, team.rank)->epoch + 1; }
/// Whether a wait of this rank was given up: the round is to do nothing. Another block may give up meanwhile.
__device__ __forceinline__ bool is_broken(const TeamView& team) {
  return *static_cast<volatile unsigned*>(&flags_of(team, team.rank)->broken) != 0;
}
__device__ __forceinline__ void set_broken(const TeamView& team) { flags_of(team, team.rank)->broken = 1; }

/// A block waits until all ranks have arrived at barrier `index` of round `epoch`; with `arrives`, it is the one block
/// that arrives for this rank. Called by all threads, at least as many as there are ranks; says the same to all: false
/// once a wait of this rank, now or earlier, was given up. What the arriving block has written before a
/// __syncthreads(), and what earlier kernels of its stream have, is visible then.
__device__ __forceinline__ bool arrive_and_wait(const TeamView& team, int index, uint64_t epoch, bool arrives) {
  const int other = static_cast<int>(threadIdx.x);
  bool arrived = !is_broken(team);
  if (arrived && other < team.size && other != team.rank) {
    if (arrives) store_release(&flags_of(team, other)->arrived[index][team.rank], epoch);
    arrived = wait_until(team, &flags_of(team, team.rank)->arrived[index][other], epoch, other);
  }
  return __syncthreads_and(arrived);
}

/// Counts this block as finished; true for the last one of the kernel. By one thread.
__device__ __forceinline__ bool finish_block(const TeamView& team) {
  return atomicAdd(&flags_of(team, team.rank)->finished_blocks, 1u) + 1 == gridDim.x;
}
/// Ends the round. By one thread of the block that finished last.
__device__ __forceinline__ void advance(const TeamView& team, uint64_t epoch) {
  flags_of(team, team.rank)->finished_blocks = 0;
  flags_of(team, team.rank)->epoch = epoch;
}
/// Ends a block's part of the round, whose waits were `complete` or given up; the last block ends the round. By one
/// thread of each block.
__device__ __forceinline__ void end_round(const TeamView& team, uint64_t epoch, bool complete) {
  if (!complete) set_broken(team);
  __threadfence();
  if (finish_block(team)) advance(team, epoch);
}

/// A round that is one barrier, by all threads of a kernel of one block, any number of times.
__device__ __forceinline__ bool barrier(const TeamView& team) {
  const uint64_t epoch = this_round(team);
  __syncthreads();  // what the block has written before
  const bool complete = arrive_and_wait(team, 0, epoch, true);
  if (threadIdx.x == 0) end_round(team, epoch, complete);
  __syncthreads();  // the next round's number is there
  return complete;
}

}  // namespace amdahl::symmetric_cuda

// One-sided communication in CPU code between threads, or processes that map the same memory. Not thread-safe: one
// thread per rank. cuda_symmetric.cuh is the counterpart for kernels.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "symmetric/team_view.h"

namespace amdahl::symmetric_cpu {

/// Between two polls of memory that another core writes.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Polls for as long as another running core takes to answer; false when `ready()` stays false. A thread whose polls
/// were in vain polls less the next time, because the other rank may need this core.
template <class Ready>
bool spin_until(const Ready& ready) {
  constexpr int kMost = 200, kLeast = 4;
  thread_local int budget = kMost;
  for (int spin = 0; spin < budget; ++spin) {
    if (ready()) {
      budget = std::min(kMost, budget + 10);
      return true;
    }
    relax();
  }
  budget = std::max(kLeast, budget / 2);
  return ready();
}

inline TeamFlags* flags_of(const TeamView& team, int rank) { return reinterpret_cast<TeamFlags*>(team.base[rank]); }

/// Address in `rank`'s memory of the symmetric object at `local` in this rank's memory.
template <class T>
T* peer(const TeamView& team, T* local, int rank) {
  const char* own = team.base[team.rank];
  return reinterpret_cast<T*>(team.base[rank] + (reinterpret_cast<const char*>(local) - own));
}

inline uint64_t load_acquire(const Signal* signal) {
  return std::atomic_ref(const_cast<uint64_t&>(signal->value)).load(std::memory_order_acquire);
}
inline void store_release(Signal* signal, uint64_t value) {
  std::atomic_ref(signal->value).store(value, std::memory_order_release);
}

/// Copies `bytes` to the object `to` of `rank`. Visible there once that rank has seen a signal that this rank stored
/// later.
inline void put(const TeamView& team, void* to, const void* from, size_t bytes, int rank) {
  if (bytes > 0) std::memcpy(peer(team, static_cast<char*>(to), rank), from, bytes);
}
inline void get(const TeamView& team, void* to, const void* from, size_t bytes, int rank) {
  if (bytes > 0) std::memcpy(to, peer(team, static_cast<const char*>(from), rank), bytes);
}
/// No operation: a put is complete when it returns, and signals and atomics have release order.
inline void fence() {}
inline void quiet() {}
inline void put_signal(const TeamView& team, void* to, const void* from, size_t bytes, Signal* signal, uint64_t value,
                       int rank) {
  put(team, to, from, bytes, rank);
  store_release(peer(team, signal, rank), value);
}
/// Adds atomically to the object `to` of `rank`; returns the previous value.
inline uint64_t fetch_add(const TeamView& team, uint64_t* to, uint64_t value, int rank) {
  return std::atomic_ref(*peer(team, to, rank)).fetch_add(value, std::memory_order_acq_rel);
}

/// Polls until `ready()`. False when the host ends the wait or it times out; after a timeout the report names the
/// missing rank, `from()`.
template <class Ready, class From>
bool wait_on(const TeamView& team, const From& from, const Ready& ready) {
  constexpr unsigned kYields = 1000;
  constexpr auto kSleep = std::chrono::microseconds(50);
  if (spin_until(ready)) return true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(team.timeout_ns);
  for (unsigned poll = 0;; ++poll) {
    if (ready()) return true;
    if (std::atomic_ref(team.report->give_up).load(std::memory_order_acquire) != 0) return false;
    if (std::chrono::steady_clock::now() >= end) {
      std::atomic_ref(team.report->missing_rank).store(static_cast<unsigned>(from()) + 1, std::memory_order_release);
      return false;
    }
    if (poll < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
}

/// The same for a rank that is known beforehand.
template <class Ready>
bool wait_for(const TeamView& team, int from, const Ready& ready) {
  return wait_on(
      team, [from] { return from; }, ready);
}

/// Waits until `signal`, in this rank's memory and stored by rank `from`, is at least `value`.
inline bool wait_until(const TeamView& team, const Signal* signal, uint64_t value, int from) {
  return wait_for(team, from, [&] { return load_acquire(signal) >= value; });
}

/// Arrives at barrier `index` of round `epoch` and waits for all ranks, whose earlier writes are then visible.
inline bool arrive_and_wait(const TeamView& team, int index, uint64_t epoch) {
  for (int step = 1; step < team.size; ++step) {
    const int other = (team.rank + step) % team.size;
    store_release(&flags_of(team, other)->arrived[index][team.rank], epoch);
  }
  for (int other = 0; other < team.size; ++other)
    if (other != team.rank && !wait_until(team, &flags_of(team, team.rank)->arrived[index][other], epoch, other))
      return false;
  return true;
}

/// A round of one barrier. False after an abandoned wait, also in later rounds.
inline bool barrier(const TeamView& team) {
  TeamFlags* own = flags_of(team, team.rank);
  if (own->broken) return false;
  const uint64_t epoch = own->epoch + 1;
  if (!arrive_and_wait(team, 0, epoch)) own->broken = 1;
  own->epoch = epoch;
  return own->broken == 0;
}

}  // namespace amdahl::symmetric_cpu

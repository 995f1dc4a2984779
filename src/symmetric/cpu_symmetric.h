// One-sided communication by CPU code: ranks are threads, or processes that map the same memory. One thread per rank
// calls these at a time. cuda_symmetric.cuh has the same for kernels.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "symmetric/team_view.h"

namespace amdahl::symmetric_cpu {

inline TeamFlags* flags_of(const TeamView& team, int rank) { return reinterpret_cast<TeamFlags*>(team.base[rank]); }

/// Where `rank` has what lies at `local` in this rank's symmetric memory.
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

/// `bytes` to where `rank` has `to`; visible there once this rank has stored a signal and that rank has seen it.
inline void put(const TeamView& team, void* to, const void* from, size_t bytes, int rank) {
  if (bytes > 0) std::memcpy(peer(team, static_cast<char*>(to), rank), from, bytes);
}
inline void get(const TeamView& team, void* to, const void* from, size_t bytes, int rank) {
  if (bytes > 0) std::memcpy(to, peer(team, static_cast<const char*>(from), rank), bytes);
}
/// Orders this rank's puts before its later ones, and waits for them: nothing to do, because a put is done when it
/// returns, and the signals and atomics by which other ranks see it have release order.
inline void fence() {}
inline void quiet() {}
inline void put_signal(const TeamView& team, void* to, const void* from, size_t bytes, Signal* signal, uint64_t value,
                       int rank) {
  put(team, to, from, bytes, rank);
  store_release(peer(team, signal, rank), value);
}
/// Adds to where `rank` has `to`, atomically over all ranks; returns what was there before.
inline uint64_t fetch_add(const TeamView& team, uint64_t* to, uint64_t value, int rank) {
  return std::atomic_ref(*peer(team, to, rank)).fetch_add(value, std::memory_order_acq_rel);
}

/// Polls until `ready()`. False once the wait is given up: by the host, or because the time is over, and then the
/// report names `from`, the rank that was waited for.
template <class Ready>
bool wait_for(const TeamView& team, int from, const Ready& ready) {
  constexpr unsigned kYields = 1000;
  constexpr auto kSleep = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(team.timeout_ns);
  for (unsigned poll = 0;; ++poll) {
    if (ready()) return true;
    if (std::atomic_ref(team.report->give_up).load(std::memory_order_acquire) != 0) return false;
    if (std::chrono::steady_clock::now() >= end) {
      std::atomic_ref(team.report->missing_rank).store(static_cast<unsigned>(from) + 1, std::memory_order_release);
      return false;
    }
    if (poll < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
}

/// Waits until `signal`, in this rank's memory and stored by rank `from`, is `value` or more.
inline bool wait_until(const TeamView& team, const Signal* signal, uint64_t value, int from) {
  return wait_for(team, from, [&] { return load_acquire(signal) >= value; });
}

/// This rank arrives at barrier `index` of round `epoch` and waits for all; what each wrote before is visible then.
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

/// A round that is one barrier. False once a wait of this team has been given up.
inline bool barrier(const TeamView& team) {
  TeamFlags* own = flags_of(team, team.rank);
  if (own->broken) return false;
  const uint64_t epoch = own->epoch + 1;
  if (!arrive_and_wait(team, 0, epoch)) own->broken = 1;
  own->epoch = epoch;
  return own->broken == 0;
}

}  // namespace amdahl::symmetric_cpu

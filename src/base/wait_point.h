// Waiting for a change of atomic state: a short spin, then sleep.
//
// Queues, events and barriers of CPU virtual devices pass work between threads every few microseconds, where a futex
// round trip would cost as much as the work. The state is in atomics of the owner; this class only wakes sleepers.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/deadline.h"

namespace amdahl {

class WaitPoint {
 public:
  /// Long enough for a change by another running thread, short enough not to starve it on few cores.
  static constexpr std::chrono::microseconds kSpin{5};

  /// Call after the state has changed.
  void notify() {
    // The read-modify-write orders the caller's state change before the read of `sleepers_`, and sleep() does the
    // reverse: either this sees the sleeper, or the sleeper sees the new state.
    if (sleepers_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
    { std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  /// Waits until `ready()`; false when the deadline passes first. Without a deadline it waits forever. `ready` must
  /// read atomics only.
  template <class Ready>
  bool wait(const Ready& ready, const std::optional<Deadline>& deadline = std::nullopt) {
    if (ready()) return true;
    const auto spin_end = Deadline::Clock::now() + kSpin;
    while (Deadline::Clock::now() < spin_end)
      if (ready()) return true;
    return sleep(ready, deadline);
  }

 private:
  template <class Ready>
  bool sleep(const Ready& ready, const std::optional<Deadline>& deadline) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_acq_rel);
    bool held = ready();
    while (!held) {
      if (!deadline) {
        changed_.wait(lock);
      } else if (changed_.wait_until(lock, deadline->time()) == std::cv_status::timeout) {
        held = ready();
        break;
      }
      held = ready();
    }
    sleepers_.fetch_sub(1, std::memory_order_acq_rel);
    return held;
  }

  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace amdahl

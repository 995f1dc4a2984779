// A place where threads wait for an atomic state to change: a short spin, then sleep.
//
// The queues, events and barriers of CPU virtual devices hand work over every few microseconds; a futex round trip
// alone would cost as much as the work. The state itself lives in atomics of the owner; this class only wakes sleepers.
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
  /// Long enough to catch a hand-over between two running threads, short enough not to starve them on few cores.
  static constexpr std::chrono::microseconds kSpin{5};

  /// Call after the state has changed. Any thread.
  void notify() {
    // The read-modify-write orders the caller's state change before the look at `sleepers_`, against the same pair in
    // sleep(): either this sees the sleeper, or the sleeper sees the new state.
    if (sleepers_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
    { std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  /// Waits until `ready()` holds; false when the deadline (none: never) passes first. `ready` reads atomics only.
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

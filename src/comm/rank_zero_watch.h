// Detects that rank 0 ended before its rendezvous server was up, when there is no connection yet to show it.
#pragma once

#include <chrono>

#include "comm/world.h"

namespace amdahl {

/// Searches the processes of this host for rank 0's. Has no effect when it is not visible (another host, user or PID
/// namespace).
class RankZeroWatch {
 public:
  explicit RankZeroWatch(const LaunchContext& launch) : launch_(launch) {}
  /// Throws Error{rank_died} once a process of rank 0 that was seen has been gone for one second, which allows for a
  /// script between two programs. Reads /proc at most a few times per second, however often it is called.
  void check();

 private:
  using Clock = std::chrono::steady_clock;
  const LaunchContext launch_;
  Clock::time_point next_look_{}, last_seen_{};
  int seen_pid_ = -1;
};

}  // namespace amdahl

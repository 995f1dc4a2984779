// Whether rank 0 ended before its rendezvous was up: until then no connection tells.
#pragma once

#include <chrono>

#include "comm/world.h"

namespace amdahl {

/// Looks for rank 0's process among those of this host. Where it cannot be seen (another host, another user, another
/// PID namespace), nothing is said about it.
class RankZeroWatch {
 public:
  explicit RankZeroWatch(const LaunchContext& launch) : launch_(launch) {}
  /// Throws Error{rank_died} once a process of rank 0 that was seen has been gone for a second, long enough for a
  /// script between two programs. Looks a few times a second, however often it is called.
  void check();

 private:
  using Clock = std::chrono::steady_clock;
  const LaunchContext launch_;
  Clock::time_point next_look_{}, last_seen_{};
  int seen_pid_ = -1;
};

}  // namespace amdahl

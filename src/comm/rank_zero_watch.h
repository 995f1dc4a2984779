// Detects that rank 0 ended before its rendezvous server was up, when there is no connection yet to show it.
#pragma once

#include <chrono>

#include "comm/world.h"

namespace amdahl {

/// Searches the processes of this host for rank 0's. Has no effect when rank 0 belongs to another host.
class RankZeroWatch {
 public:
  explicit RankZeroWatch(const LaunchContext& launch);
  /// Throws Error{rank_died} once rank 0 has been gone for one second, which allows for a script between two programs:
  /// it was seen before, or all ranks that are not there have ended and their parent has not waited for them yet; after
  /// three seconds when one of them has. Also when a program that starts all ranks together has not shown rank 0 for
  /// ten seconds; ranks that a user starts in shells may come later. Reads /proc at most a few times per second,
  /// however often it is called.
  void check();

 private:
  using Clock = std::chrono::steady_clock;
  Error ended(const std::string& what) const;

  const LaunchContext launch_;
  const bool expected_here_;  // and now
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_{}, last_seen_ = start_;
  int seen_pid_ = -1;
};

/// Whether another rank of the job may still be there: one is among the processes of this host, or has a host of its
/// own.
bool may_have_other_ranks(const LaunchContext& launch);

}  // namespace amdahl

// Processor time that programs take from each other.
#pragma once

#include <algorithm>

namespace amdahl {

/// What a job and other programs had to do with each other's processors, us of processor time.
struct Contention {
  double others_us = 0;  // other programs ran; off by the kernel's ticks, so it can be below 0
  double waited_us = 0;  // the job's threads waited for a processor
  double stolen_us = 0;  // the hypervisor gave the host's processors to others

  /// Processor time that others took from the job: its waiting, but at most what other programs ran, plus what was
  /// stolen. Threads that wait for each other's processors count nothing, nor do programs on processors that nobody
  /// here wanted. Over several runs: of the sums, since single ones are off by ticks.
  double lost_us() const { return std::min(std::max(0.0, others_us), waited_us) + stolen_us; }
};

}  // namespace amdahl

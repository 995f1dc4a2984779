// Contention for processors between a job and other programs.
#pragma once

#include <algorithm>

namespace amdahl {

/// Processor time in us.
struct Contention {
  double others_us = 0;     // other programs ran; accurate to the kernel's ticks, so it can be negative
  double waited_us = 0;     // the job's threads waited for a processor
  double stolen_us = 0;     // steal time: the hypervisor gave the host's processors to others
  double throttled_us = 0;  // the job's threads were stopped for the limit of their control group

  /// Processor time that the job lost: its waiting time, at most the run time of other programs, plus steal
  /// time and what the limit took. So neither threads of the job that wait for each other count, nor programs on
  /// processors that the job did not need. Over several runs, apply it to the sums, because single values are accurate
  /// only to ticks.
  double lost_us() const { return std::min(std::max(0.0, others_us), waited_us) + stolen_us + throttled_us; }
};

}  // namespace amdahl

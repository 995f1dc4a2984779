// When the first run of a cell may begin: after a minimum time under load, with stable clocks and step times.
#pragma once

#include <cstdint>
#include <vector>

namespace amdahl {

/// How a warm-up ended; stored with the run that follows it.
struct WarmUp {
  int64_t steps = 0;
  double load_us = 0;        // of its steps, on the slowest rank
  double drift_percent = 0;  // drift over the last blocks, by Sen's slope
  bool settled = false;      // false: the time limit ended it
};

/// Decides from blocks of steps. A processor raises its clocks over tenths of a second under load, and graphs, caches
/// and allocators settle within the first steps: the rule waits for both.
class WarmUpRule {
 public:
  static constexpr double kBlockUs = 10'000;  // minimum duration of a block: shorter ones are dominated by noise
  static constexpr double kLeastLoadUs =
      300'000;  // minimum time under load before stability is evaluated, on devices with a clock reading
  static constexpr double kLeastClocklessUs = 100'000;  // the same, on devices without a clock reading
  static constexpr double kMostLoadUs = 3'000'000;
  static constexpr double kClockTolerance = 0.01;

  /// `least_steps`: minimum number of steps, whatever their duration.
  explicit WarmUpRule(int64_t least_steps) : least_steps_(least_steps) {}

  /// Number of steps of the next block.
  int64_t next_block() const;
  /// `step_us`: the slowest rank's mean over the block; `clock_mhz`: of a device after it, negative when unknown.
  void add(int64_t steps, double step_us, double clock_mhz);
  /// True once the warm-up is over.
  bool done() const;
  WarmUp result() const;

 private:
  bool stable() const;

  int64_t least_steps_;
  int64_t steps_ = 0;
  double load_us_ = 0;
  double clock_mhz_ = -1, last_clock_mhz_ = -1;
  std::vector<double> block_us_;  // per step
};

}  // namespace amdahl

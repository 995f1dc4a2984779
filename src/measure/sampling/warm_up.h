// When the first run of a cell may begin: after time under load, with stable clocks and times that no longer change.
#pragma once

#include <cstdint>
#include <vector>

namespace amdahl {

/// How a warm-up ended; stored with the run that it came before.
struct WarmUp {
  int64_t steps = 0;
  double load_us = 0;        // of its steps, on the slowest rank
  double drift_percent = 0;  // of the last blocks, by Sen's slope
  bool settled = false;      // false: the limit of time came first
};

/// Decides from blocks of steps. A processor raises its clocks over tenths of a second under load, and a graph, a cache
/// or an allocator settles within the first steps: both must have happened.
class WarmUpRule {
 public:
  static constexpr double kBlockUs = 10'000;  // a block takes at least this long: shorter ones are noise
  static constexpr double kLeastLoadUs =
      300'000;  // under load before anything is judged, where there is a clock to rise
  static constexpr double kLeastClocklessUs = 100'000;  // likewise without one
  static constexpr double kMostLoadUs = 3'000'000;
  static constexpr double kClockTolerance = 0.01;

  /// `least_steps`: before anything is judged, whatever their time.
  explicit WarmUpRule(int64_t least_steps) : least_steps_(least_steps) {}

  /// Steps of the next block.
  int64_t next_block() const;
  /// `step_us`: the slowest rank's mean over the block; `clock_mhz`: of a device after it, negative when unknown.
  void add(int64_t steps, double step_us, double clock_mhz);
  /// True once it is over.
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

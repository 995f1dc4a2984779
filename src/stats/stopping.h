// When to stop sampling, and when a warm-up is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace amdahl {

/// Sampling ends at `max_samples`, or earlier once the interval is tight. rel_ci 0 never stops early.
struct StopRule {
  double rel_ci = 0;  // 0.01: half-width of the 95 % t interval at most 1 % of the mean
  int64_t min_samples = 5;
  int64_t max_samples = 50;
};

struct StopDecision {
  bool stop = false;
  bool tight = false;                         // the interval was tight enough; false when max_samples ended it
  std::optional<double> relative_half_width;  // absent when n < 2 or the mean is 0
};

StopDecision decide_stop(std::span<const double> samples, const StopRule& rule);

/// Mann-Kendall test of a trend in block times, with Sen's slope for its size.
struct Trend {
  double p = 1;               // two-tailed, normal approximation
  double relative_drift = 0;  // Sen slope x (number of blocks - 1) / median; negative when blocks get faster
  bool trending = false;
};

inline constexpr int64_t kTrendBlocks = 5;        // fewer blocks cannot show a trend at p < 0.05
inline constexpr double kDriftTolerance = 0.005;  // a significant drift below 0.5 % is harmless

/// Whether the last blocks still get faster or slower: p < 0.05 and |drift| > 0.5 %.
Trend trend_of(std::span<const double> block_times);
}  // namespace amdahl

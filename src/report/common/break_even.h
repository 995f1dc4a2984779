// Where a curve of speedup over size crosses a threshold, by interpolation between measured sizes only.
#pragma once

#include <vector>

#include "amdahl/report.h"
#include "stats/moments.h"

namespace amdahl {

/// Speedup at one measured size.
struct SpeedupPoint {
  double size = 0;
  double speedup = 0;
  std::optional<Interval> ci;
};

/// Input of a speedup.
struct MeasuredSpeed {
  Moments time_us, throughput;
};
/// Speedup by step times, or by throughput if the work differs (weak scaling), with the interval of `test_moments`.
/// `cost` and the study reports interpolate this speedup.
SpeedupPoint speedup_point(double size, const MeasuredSpeed& several, const MeasuredSpeed& one, bool by_time);

/// Sets answer, value, its neighbours, until, low, high, has_interval, measured range and num_sizes of a BreakEven.
/// Requires at least two distinct positive sizes; interpolates linearly in log-log. `value`: the first size from which
/// the speedup reaches `threshold`; `low` and `high`: the same for the upper and lower ends of the intervals.
BreakEven find_break_even(std::vector<SpeedupPoint> points, double threshold);

/// Text of a break-even that has a value: "about 512 (modelled: interpolated between 64 and 1,024)".
std::string break_even_place(const BreakEven& found);

/// The complete text: "never in the measured range; measured from 64 to 8,192", "from about 512 [430, 700] (modelled:
/// interpolated between 64 and 1,024); measured from 8 to 8,192", ...
std::string break_even_text(const BreakEven& found);

}  // namespace amdahl

// Where a curve of speedups over sizes crosses a threshold, between measured sizes only.
#pragma once

#include <vector>

#include "amdahl/cost.h"
#include "stats/moments.h"

namespace amdahl {

/// Speedup at one measured size.
struct SpeedupPoint {
  double size = 0;
  double speedup = 0;
  std::optional<Interval> ci;
};

/// What a speedup is computed from.
struct MeasuredSpeed {
  Moments time_us, throughput;
};
/// Speedup by step times, or by throughput where the work differs (weak scaling), with the interval of `test_moments`:
/// the one that `cost` and the reports of a study interpolate.
SpeedupPoint speedup_point(double size, const MeasuredSpeed& several, const MeasuredSpeed& one, bool by_time);

/// Sets answer, value, its neighbours, until, low, high, has_interval, measured range and num_sizes of a BreakEven.
/// Sizes must be distinct and positive, at least two; both axes are interpolated in their logarithms. `value` is the
/// first size from which the speedup reaches `threshold`; `low` and `high` are the same of the intervals' upper and
/// lower ends.
BreakEven find_break_even(std::vector<SpeedupPoint> points, double threshold);

/// Where it is, of one with a value: "about 512 (modelled: interpolated between 64 and 1,024)".
std::string break_even_place(const BreakEven& found);

/// "never in the measured range; measured from 64 to 8,192", "from about 512 [430, 700] (modelled: interpolated between
/// 64 and 1,024); measured from 8 to 8,192", ...
std::string break_even_text(const BreakEven& found);

}  // namespace amdahl

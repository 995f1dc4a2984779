// Where a curve of speedups over sizes crosses a threshold, between measured sizes only.
#pragma once

#include <vector>

#include "amdahl/cost.h"

namespace amdahl {

/// Speedup at one measured size.
struct SpeedupPoint {
  double size = 0;
  double speedup = 0;
  std::optional<Interval> ci;
};

/// Sets answer, value, until, low, high, has_interval, measured range and num_sizes of a BreakEven. Sizes must be
/// distinct and positive, at least two; both axes are interpolated in their logarithms. `value` is the first size from
/// which the speedup reaches `threshold`; `low` and `high` are the same of the intervals' upper and lower ends.
BreakEven find_break_even(std::vector<SpeedupPoint> points, double threshold);

/// "never in the measured range (64 to 8,192)", "about 512 [430, 700]", ...
std::string break_even_words(const BreakEven& found);

}  // namespace amdahl

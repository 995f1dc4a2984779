// Where a curve of speedup over size crosses a threshold, by interpolation between measured sizes only.
#pragma once

#include <vector>

#include "amdahl/report.h"
#include "stats/moments.h"

namespace amdahl {

/// Speedup at one measured size, and the time of one device there; 0 where it is not known.
struct SpeedupPoint {
  double size = 0;
  double speedup = 0;
  std::optional<Interval> ci;
  double one_us = 0;
};

/// Whether the time of one device jumps between two neighbouring sizes: it grows nearly as much as the size, or more,
/// and hardly up to the next one. The device then works in another way (other kernels, another launch order), and
/// nothing is interpolated between them.
bool is_jump(const SpeedupPoint& below, const SpeedupPoint& above, const SpeedupPoint& next);

/// Sets answer, value, its neighbours, until, low, high, has_interval, measured range and num_sizes of a BreakEven.
/// Requires at least two distinct positive sizes; interpolates linearly in log-log. `value`: the first size from which
/// the speedup reaches `threshold`; `low` and `high`: the same for the upper and lower ends of the intervals. Across a
/// jump the first size beyond it is taken.
BreakEven find_break_even(std::vector<SpeedupPoint> points, double threshold);

/// Text of a break-even that has a value: "about 512 (modelled: interpolated between 64 and 1,024)".
std::string break_even_place(const BreakEven& found);

/// The complete text: "never in the measured range; measured from 64 to 8,192", "from about 512 [430, 700] (modelled:
/// interpolated between 64 and 1,024); measured from 8 to 8,192", ...
std::string break_even_text(const BreakEven& found);

}  // namespace amdahl

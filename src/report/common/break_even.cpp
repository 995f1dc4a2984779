#include "report/common/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "amdahl/error.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

using Height = std::function<double(const SpeedupPoint&)>;

/// The size at which the line between two points reaches `threshold`; the points are on either side of it, or one is on
/// it.
double between(const SpeedupPoint& a, const SpeedupPoint& b, double threshold, const Height& height) {
  const double from = std::log(height(a)), to = std::log(height(b));
  const double part = to == from ? 0 : (std::log(threshold) - from) / (to - from);
  return std::exp(std::log(a.size) + part * (std::log(b.size) - std::log(a.size)));
}

struct Crossing {
  BreakEven::Answer answer = BreakEven::Answer::never;
  std::optional<double> value, until;
  double below = 0, above = 0;  // measured sizes around `value`
  bool at_jump = false;
};

using Points = std::vector<SpeedupPoint>;

bool is_jump_before(const Points& points, Points::const_iterator above) {
  return above != points.begin() && above + 1 < points.end() && is_jump(*std::prev(above), *above, *std::next(above));
}

Crossing crossing_of(const Points& points, double threshold, const Height& height) {
  Crossing found;
  const auto reaches = [&](const SpeedupPoint& point) { return height(point) >= threshold; };
  const auto first = std::find_if(points.begin(), points.end(), reaches);
  if (first == points.end()) return found;
  found.answer = BreakEven::Answer::always;
  if (first != points.begin()) {
    found.answer = BreakEven::Answer::at;
    found.at_jump = is_jump_before(points, first);
    found.value = found.at_jump ? first->size : between(*std::prev(first), *first, threshold, height);
    found.below = std::prev(first)->size, found.above = first->size;
  }
  const auto falls = std::find_if_not(first, points.end(), reaches);
  if (falls != points.end()) {
    if (found.answer == BreakEven::Answer::always) {
      found.answer = BreakEven::Answer::at;
      found.value = found.below = found.above = points.front().size;
    }
    found.until = is_jump_before(points, falls) ? falls->size : between(*std::prev(falls), *falls, threshold, height);
  }
  return found;
}

std::string size_text(double size) {
  const bool whole = size == std::floor(size) && size < 1e15;
  return whole ? with_thousands(static_cast<int64_t>(size)) : format_number(size);
}

}  // namespace

bool is_jump(const SpeedupPoint& below, const SpeedupPoint& above, const SpeedupPoint& next) {
  constexpr double kNearlyProportional = 0.9, kHardly = 0.5;  // exponents of the size
  if (below.one_us <= 0 || above.one_us <= 0 || next.one_us <= 0) return false;
  const auto exponent = [](const SpeedupPoint& a, const SpeedupPoint& b) {
    return std::log(b.one_us / a.one_us) / std::log(b.size / a.size);
  };
  return exponent(below, above) >= kNearlyProportional && exponent(above, next) <= kHardly;
}

BreakEven find_break_even(std::vector<SpeedupPoint> points, double threshold) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
  BreakEven found;
  found.at_speedup = threshold;
  found.num_sizes = static_cast<int64_t>(points.size());
  if (points.size() < 2) throw Error(Cause::internal, "a break-even of fewer than two sizes", "report this");
  found.measured_low = points.front().size;
  found.measured_high = points.back().size;
  const Crossing middle = crossing_of(points, threshold, [](const SpeedupPoint& p) { return p.speedup; });
  found.answer = middle.answer;
  found.value = middle.value;
  found.until = middle.until;
  found.below = middle.below, found.above = middle.above;
  found.at_jump = middle.at_jump;
  found.has_interval =
      std::all_of(points.begin(), points.end(), [](const SpeedupPoint& p) { return p.ci && p.ci->low > 0; });
  if (!found.has_interval) return found;
  found.low = crossing_of(points, threshold, [](const SpeedupPoint& p) { return p.ci->high; }).value;
  found.high = crossing_of(points, threshold, [](const SpeedupPoint& p) { return p.ci->low; }).value;
  return found;
}

std::string break_even_place(const BreakEven& found) {
  if (found.below == found.above) return fmt::format("{}, the smallest measured", size_text(found.below));
  if (found.at_jump)
    return fmt::format("{}, not at {} (not interpolated: the time of one device jumps between them)",
                       size_text(found.above), size_text(found.below));
  const auto end = [](const std::optional<double>& size, const char* side, double measured) {
    return size ? size_text(*size) : fmt::format("{} {}", side, size_text(measured));
  };
  // Range given by the intervals: a missing end is outside of the measured range.
  const std::string interval = found.has_interval
                                   ? fmt::format(" [{}, {}]", end(found.low, "below", found.measured_low),
                                                 end(found.high, "above", found.measured_high))
                                   : std::string(" [n/a]");
  return fmt::format("about {}{} (modelled: interpolated between {} and {})", size_text(found.value.value_or(0)),
                     interval, size_text(found.below), size_text(found.above));
}

std::string break_even_text(const BreakEven& found) {
  const std::string range =
      fmt::format("measured from {} to {}", size_text(found.measured_low), size_text(found.measured_high));
  const std::string until = found.until ? fmt::format(", up to about {}", size_text(*found.until)) : std::string();
  switch (found.answer) {
    case BreakEven::Answer::never:
      if (found.low)
        return fmt::format("never in the measured range, perhaps from {}; {}", size_text(*found.low), range);
      return fmt::format("never in the measured range; {}", range);
    case BreakEven::Answer::always:
      if (found.has_interval && found.high)
        return fmt::format("at every measured size, certainly from {}; {}", size_text(*found.high), range);
      return fmt::format("at every measured size; {}", range);
    case BreakEven::Answer::at:
      break;
  }
  return fmt::format("from {}{}; {}", break_even_place(found), until, range);
}

}  // namespace amdahl

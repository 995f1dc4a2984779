// Line charts over sizes, counts or epochs: measured points joined by lines, modelled curves dashed, limits and
// crossovers as rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

/// Maximum number of series per panel that colour and shape can distinguish; more are split into several panels.
inline constexpr size_t kMostSeriesOfAPicture = 8;

struct LinePoint {
  double x = 0, y = 0;
  std::optional<Interval> interval;  // interval of y
  int64_t samples = 0;               // 0: none (modelled)
};

struct LineSeries {
  std::string name;
  std::string panel;  // series with the same panel are drawn together; empty: single panel
  Origin origin = Origin::measured;
  std::vector<LinePoint> points;
};

/// A labelled rule: a limit (horizontal), or a position where something changes (vertical).
struct LineRule {
  std::string panel, words;
  double at = 0;
};

struct LinePlot {
  enum class XScale { bytes, counts, linear };  // bytes and counts: log2 scale

  std::string id, title, summary;  // fields of the Chart
  std::string title_at_one;        // used instead of `title` when there is one x value, which replaces "{}"
  TableColumn x, y;                // with units
  std::string series_title;        // legend title: "transport"
  std::string interval_title;      // meaning of the error bars: "95 % interval"
  XScale x_scale = XScale::bytes;
  bool log_y = true;
  bool joined = true;  // false: points without lines, because modelled curves pass through them
  std::vector<LineSeries> series;
  std::vector<LineRule> limits;     // y values
  std::vector<LineRule> crossings;  // x values
};

/// Makes a line chart, or a bar chart when there is only one x value. nullopt when no series has a point that the
/// scales can show (above 0 on logarithmic axes). A panel with more than kMostSeriesOfAPicture series is split. The
/// table has one row per point and one per rule; its column "kind" is "point", "curve" (modelled), "limit" or
/// "crossing".
std::optional<Chart> line_chart(const LinePlot& plot);

}  // namespace amdahl

// Lines over sizes, counts or epochs: measured points joined, modelled curves dashed, limits and crossovers as rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

/// Series that one picture tells apart by colour and shape; more are split over several.
inline constexpr size_t kMostSeriesOfAPicture = 8;

struct LinePoint {
  double x = 0, y = 0;
  std::optional<Interval> interval;  // of y
  int64_t samples = 0;               // 0: none, as of a model
};

struct LineSeries {
  std::string name;
  std::string panel;  // series of one panel share a picture; empty: there is one
  Origin origin = Origin::measured;
  std::vector<LinePoint> points;
};

/// A value that is a limit (across), or a place where something changes (upright), with its words.
struct LineRule {
  std::string panel, words;
  double at = 0;
};

struct LinePlot {
  enum class XScale { bytes, counts, linear };  // the first two logarithmic to the base of 2

  std::string id, title, summary;  // of the Chart
  std::string title_at_one;        // instead of `title` where there is one x value, which stands for "{}"
  TableColumn x, y;                // names with units
  std::string series_title;        // what tells lines apart: "transport"
  std::string interval_title;      // what the bars are: "95 % interval"
  XScale x_scale = XScale::bytes;
  bool log_y = true;
  bool joined = true;  // false: points alone, where modelled curves lead through them
  std::vector<LineSeries> series;
  std::vector<LineRule> limits;     // y values
  std::vector<LineRule> crossings;  // x values
};

/// Lines need two places: with one x value the chart is bars. Nothing when no series has a point that the scales can
/// show (above 0 where they are logarithmic). A panel of more than kMostSeriesOfAPicture names becomes several. The
/// table has one row per point and one per rule; its column "kind" is "point", "curve" (modelled), "limit" or
/// "crossing".
std::optional<Chart> line_chart(const LinePlot& plot);

}  // namespace amdahl

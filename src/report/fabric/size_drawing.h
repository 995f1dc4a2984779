// Lines over transfer sizes, both axes logarithmic, as an SVG that also prints in grey: every line has a mark of its
// own shape, and limits are the only dashed lines.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

struct ChartPoint {
  double bytes = 0, value = 0;  // from 1 to 2^60; above 0
  bool failed = false;          // drawn as a cross, and no line leads through it
  std::string title;            // shown when pointed at
};

struct ChartLine {
  std::string label;
  int style = 0;                   // lines of one style share colour and shape
  bool hollow = false;             // marks without filling, a thinner line
  std::vector<ChartPoint> points;  // ascending sizes
};

struct ChartLimit {
  std::string label;
  double value = 0;  // above 0
};

struct SizeChart {
  std::string title, subtitle;
  std::string size_title, value_title;  // of the axes, with units
  std::vector<ChartLine> lines;
  std::vector<ChartLimit> limits;
  std::vector<std::string> captions;  // lines below
};

/// Styles that differ; line styles above repeat them.
inline constexpr int kChartStyles = 40;

/// Classes of its elements: "curve" a line, "mark" and "failed" its points, "limit". Empty when there is no point.
std::string size_chart_svg(const SizeChart& chart);

}  // namespace amdahl

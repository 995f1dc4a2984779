// Line chart over transfer sizes as SVG, both axes logarithmic, readable in greyscale: every line has its own marker
// shape, and only limits are dashed.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

struct ChartPoint {
  double bytes = 0, value = 0;  // bytes: 1 to 2^60; value: above 0
  bool failed = false;          // drawn as a cross, not connected by the line
  std::string title;            // tooltip
};

struct ChartLine {
  std::string label;
  int style = 0;                   // lines with the same style have the same colour and marker
  bool hollow = false;             // hollow markers, thinner line
  std::vector<ChartPoint> points;  // in ascending sizes
};

struct ChartLimit {
  std::string label;
  double value = 0;  // above 0
};

struct SizeChart {
  std::string title, subtitle;
  std::string size_title, value_title;  // axis titles with units
  std::vector<ChartLine> lines;
  std::vector<ChartLimit> limits;
  std::vector<std::string> captions;  // text lines below the chart
};

/// Number of distinct styles; larger style numbers wrap around.
inline constexpr int kChartStyles = 40;

/// Renders the chart. CSS classes of its elements: "curve" (line), "mark" and "failed" (points), "limit". Empty when
/// there is no point.
std::string size_chart_svg(const SizeChart& chart);

}  // namespace amdahl

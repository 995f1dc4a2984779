#include "report/fabric/size_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "report/common/words.h"

namespace amdahl {
namespace {

// All in pixels.
constexpr int kLeft = 76, kTop = 64, kPlotWidth = 620, kPlotHeight = 400, kBelow = 64, kLegendGap = 20, kRow = 20,
              kLetter = 7;

// Okabe and Ito's colours for colour-blind readers, without yellow, which is too faint on white.
constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#000000", "#e69f00", "#56b4e9", "#7a4b2a"};
// Marker outlines around (0, 0): circle, square, triangle, diamond, inverted triangle.
constexpr std::array<const char*, 5> kShapes{"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-4 -4h8v8h-8z", "M0 -5L5 4H-5z",
                                             "M0 -5L5 0L0 5L-5 0z", "M0 5L5 -4H-5z"};
static_assert(kChartStyles == kColours.size() * kShapes.size());

struct Style {
  const char* colour;
  const char* shape;
};

/// The first eight differ in colour and, in runs of five, in shape; the combination repeats after kChartStyles.
Style style_of(int index) {
  const auto i = static_cast<size_t>(index);
  return {kColours[i % kColours.size()], kShapes[i % kShapes.size()]};
}

struct Range {
  double low = 0, high = 0;
};

/// A logarithmic axis: values to pixels.
struct Axis {
  Range range;
  double first, last;  // pixel positions of its ends
  double at(double value) const {
    return first + (last - first) * std::log(value / range.low) / std::log(range.high / range.low);
  }
};

/// step_below: the largest of 1, 2 and 5 times a power of ten that is at most `value`; step_above: the smallest that is
/// at least `value`.
double step_below(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {10.0, 5.0, 2.0})
    if (step * decade <= value) return step * decade;
  return decade;
}
double step_above(double value) {
  const double below = step_below(value);
  if (below >= value) return below;
  const double decade = std::pow(10, std::floor(std::log10(below) + 1e-9));
  for (const double step : {2.0, 5.0})
    if (step * decade >= value) return step * decade;
  return 10 * decade;
}

template <class Visit>
void each_point(const SizeChart& chart, const Visit& visit) {
  for (const ChartLine& line : chart.lines)
    for (const ChartPoint& point : line.points) visit(point);
}

Range size_range(const SizeChart& chart) {
  Range range{INFINITY, 0};
  each_point(chart, [&](const ChartPoint& point) {
    range = {std::min(range.low, point.bytes), std::max(range.high, point.bytes)};
  });
  const double margin = 1.2;
  return {std::max(1.0, std::exp2(std::floor(std::log2(range.low / margin)))),
          std::exp2(std::ceil(std::log2(range.high * margin)))};
}

Range value_range(const SizeChart& chart) {
  Range range{INFINITY, 0};
  const auto include = [&](double value) { range = {std::min(range.low, value), std::max(range.high, value)}; };
  each_point(chart, [&](const ChartPoint& point) { include(point.value); });
  for (const ChartLimit& limit : chart.limits) include(limit.value);
  return {step_below(range.low / 1.1), step_above(range.high * 1.1)};
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escape_xml(text));
}

std::string straight(double x1, double y1, double x2, double y2, const char* look) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, look);
}

constexpr const char* kGrid = "stroke=\"#d0d0d0\" stroke-width=\"1\"";
constexpr const char* kFineGrid = "stroke=\"#ececec\" stroke-width=\"1\"";
constexpr const char* kLimit = "class=\"limit\" stroke=\"#444444\" stroke-width=\"1.5\" stroke-dasharray=\"7 4\"";

/// Ticks at powers of two, with labels far enough apart not to overlap.
std::string size_ticks(const Axis& sizes) {
  constexpr int kMostLabels = 9;
  const int first = static_cast<int>(std::lround(std::log2(sizes.range.low))),
            last = static_cast<int>(std::lround(std::log2(sizes.range.high)));
  const int stride = (last - first) / kMostLabels + 1;
  std::string text;
  for (int power = first; power <= last; power += stride) {
    const double x = sizes.at(std::exp2(power));
    text += straight(x, kTop, x, kTop + kPlotHeight, kGrid);
    text += text_at(x, kTop + kPlotHeight + 18, "middle", binary_bytes(int64_t{1} << power));
  }
  return text;
}

/// Ticks at decades and at 2 and 5 between them; the latter have labels only if there are few decades.
std::string value_ticks(const Axis& values) {
  const bool few = std::log10(values.range.high / values.range.low) <= 3.1;
  const double slack = 1.000001;  // for rounding errors of powers
  std::string text;
  for (int power = static_cast<int>(std::floor(std::log10(values.range.low) + 1e-9));
       std::pow(10, power) <= values.range.high * slack; ++power)
    for (const int step : {1, 2, 5}) {
      const double value = step * std::pow(10, power);
      if (value * slack < values.range.low || value > values.range.high * slack) continue;
      const double y = values.at(value);
      text += straight(kLeft, y, kLeft + kPlotWidth, y, step == 1 ? kGrid : kFineGrid);
      if (step == 1 || few) text += text_at(kLeft - 8, y + 4, "end", fmt::format("{:.6g}", value));
    }
  return text;
}

std::string mark_at(const Style& style, bool hollow, double x, double y, const std::string& inside,
                    const char* kind = "class=\"mark\" ") {
  return fmt::format(
      "<path {}d=\"{}\" transform=\"translate({:.1f} {:.1f})\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\">{}"
      "</path>\n",
      kind, style.shape, x, y, hollow ? "#ffffff" : style.colour, style.colour, inside);
}

std::string cross_at(const char* colour, double x, double y, const std::string& inside, const char* kind) {
  return fmt::format(
      "<path {}d=\"M-5 -5L5 5M-5 5L5 -5\" transform=\"translate({:.1f} {:.1f})\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"2.5\">{}</path>\n",
      kind, x, y, colour, inside);
}

std::string line_drawing(const ChartLine& line, const Axis& sizes, const Axis& values) {
  const Style style = style_of(line.style);
  std::string course, marks;
  for (const ChartPoint& point : line.points) {
    const double x = sizes.at(point.bytes), y = values.at(point.value);
    const std::string title = "<title>" + escape_xml(point.title) + "</title>";
    if (point.failed) {
      marks += cross_at(style.colour, x, y, title, "class=\"failed\" ");
      continue;
    }
    course += fmt::format("{}{:.1f},{:.1f}", course.empty() ? "" : " ", x, y);
    marks += mark_at(style, line.hollow, x, y, title);
  }
  if (!course.empty())
    course = fmt::format("<polyline class=\"curve\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
                         course, style.colour, line.hollow ? "1" : "2");
  return "<g>\n" + course + marks + "</g>\n";
}

bool any_failed(const SizeChart& chart) {
  bool any = false;
  each_point(chart, [&](const ChartPoint& point) { any = any || point.failed; });
  return any;
}

std::string legend(const SizeChart& chart) {
  constexpr int kX = kLeft + kPlotWidth + kLegendGap, kSample = 26;
  int y = kTop + 8;
  std::string text;
  for (const ChartLine& line : chart.lines) {
    const Style style = style_of(line.style);
    text += straight(kX, y, kX + kSample, y,
                     fmt::format("stroke=\"{}\" stroke-width=\"{}\"", style.colour, line.hollow ? "1" : "2").c_str());
    text += mark_at(style, line.hollow, kX + kSample / 2.0, y, "", "");
    text += text_at(kX + kSample + 8, y + 4, "start", line.label);
    y += kRow;
  }
  for (const ChartLimit& limit : chart.limits) {
    text += straight(kX, y, kX + kSample, y, "stroke=\"#444444\" stroke-width=\"1.5\" stroke-dasharray=\"7 4\"");
    text += text_at(kX + kSample + 8, y + 4, "start", limit.label);
    y += kRow;
  }
  if (!any_failed(chart)) return text;
  return text + cross_at("#000000", kX + kSample / 2.0, y, "", "") +
         text_at(kX + kSample + 8, y + 4, "start", "failed: not a result");
}

struct Extent {
  int width, height;
};

Extent extent_of(const SizeChart& chart) {
  size_t longest = 20;
  for (const ChartLine& line : chart.lines) longest = std::max(longest, line.label.size());
  for (const ChartLimit& limit : chart.limits) longest = std::max(longest, limit.label.size());
  const auto rows = static_cast<int>(chart.lines.size() + chart.limits.size()) + 1;
  const int plot = kTop + kPlotHeight + kBelow + kRow * static_cast<int>(chart.captions.size());
  int width = kLeft + kPlotWidth + kLegendGap + 34 + kLetter * static_cast<int>(longest) + 16;
  for (const std::string& caption : chart.captions)
    width = std::max(width, 2 * 16 + kLetter * static_cast<int>(caption.size()));
  return {width, std::max(plot, kTop + kRow * rows + 16)};
}

std::string frame(const SizeChart& chart, const Extent& extent) {
  const double middle = kTop + kPlotHeight / 2.0;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#1b1f24\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      extent.width, extent.height, escape_xml(chart.title + ": " + chart.subtitle));
  text += text_at(16, 24, "start", chart.title, " font-size=\"15\" font-weight=\"600\"");
  text += text_at(16, 44, "start", chart.subtitle);
  text += text_at(kLeft + kPlotWidth / 2.0, kTop + kPlotHeight + 42, "middle", chart.size_title);
  text += text_at(20, middle, "middle", chart.value_title,
                  fmt::format(" transform=\"rotate(-90 20 {:.1f})\"", middle).c_str());
  int y = kTop + kPlotHeight + kBelow + 4;
  for (const std::string& caption : chart.captions) text += text_at(16, y, "start", caption), y += kRow;
  return text;
}

}  // namespace

std::string size_chart_svg(const SizeChart& chart) {
  bool any = false;
  each_point(chart, [&](const ChartPoint&) { any = true; });
  if (!any) return {};
  const Axis sizes{size_range(chart), kLeft, kLeft + kPlotWidth};
  const Axis values{value_range(chart), kTop + kPlotHeight, kTop};
  std::string text = frame(chart, extent_of(chart)) + size_ticks(sizes) + value_ticks(values);
  text += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#1b1f24\"/>\n", kLeft,
                      kTop, kPlotWidth, kPlotHeight);
  for (const ChartLimit& limit : chart.limits)
    text += straight(kLeft, values.at(limit.value), kLeft + kPlotWidth, values.at(limit.value), kLimit);
  for (const ChartLine& line : chart.lines) text += line_drawing(line, sizes, values);
  return text + legend(chart) + "</svg>\n";
}

}  // namespace amdahl

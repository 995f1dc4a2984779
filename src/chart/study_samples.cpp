#include "chart/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/spec_text.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

constexpr const char *kTick = "tick", *kCross = "cross", *kAbove = "beyond the axis", *kBelow = "below the axis";

constexpr std::string_view kSamplesSpec = R"json({
  "width": 460, "height": "$height",
  "encoding": {
    "y": {"field": "cell", "type": "nominal", "sort": "$cells", "title": null},
    "x": {"field": "shown_percent", "type": "quantitative", "title": "Step time against the cell's median (%)",
          "scale": {"domain": "$domain", "nice": false}, "axis": {"format": "+.3~r", "tickCount": 6}}},
  "layer": [
    {"mark": {"type": "tick", "opacity": 0.45, "thickness": 1.5, "size": 13},
     "transform": [{"filter": "datum.drawn == 'tick'"}]},
    {"mark": {"type": "point", "shape": "cross", "angle": 45, "filled": false, "size": 45, "style": "outlier"},
     "transform": [{"filter": "datum.drawn == 'cross'"}], "encoding": {"tooltip": "$tooltip"}},
    {"mark": {"type": "point", "shape": "triangle-right", "size": 60, "style": "outlier"},
     "transform": [{"filter": "datum.drawn == 'beyond the axis'"}], "encoding": {"tooltip": "$tooltip"}},
    {"mark": {"type": "text", "align": "right", "dx": -8, "fontSize": 11, "style": "outlier-label"},
     "transform": [{"filter": "isValid(datum.beyond)"}], "encoding": {"text": {"field": "beyond"}}},
    {"mark": {"type": "point", "shape": "triangle-left", "size": 60, "style": "outlier"},
     "transform": [{"filter": "datum.drawn == 'below the axis'"}], "encoding": {"tooltip": "$tooltip"}},
    {"mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 11, "style": "outlier-label"},
     "transform": [{"filter": "isValid(datum.below)"}], "encoding": {"text": {"field": "below"}}}
  ]
})json";

constexpr std::string_view kTooltip = R"json([
  {"field": "cell", "title": "Cell"}, {"field": "run", "title": "Run"},
  {"field": "step_time_us", "title": "Step time (us)", "format": ",.4~r"},
  {"field": "deviation_percent", "title": "From the median (%)", "format": "+.2f"}])json";

// Range of the axis: that of all runs without outliers, extended by half. An outlier that took twice as long must not
// compress all others; it is drawn at the end of the axis with its value.
struct Reach {
  double low = 0, high = 0;             // percent, range of values drawn at their position
  std::optional<double> below, beyond;  // positions of values outside of the range, if any
  double first() const { return below ? *below * 1.02 : low; }
  double last() const { return beyond ? *beyond * 1.02 : high; }
};

double percent_from_median(const CellSamples& cell, size_t run) {
  return 100 * (cell.step_time_us[run] / cell.median_us - 1);
}

Reach reach_of(const std::vector<const CellSamples*>& cells) {
  constexpr double kBeyond = 1.5, kLeastPercent = 0.5, kRoomForWords = 0.3;
  double least = -kLeastPercent, steady = kLeastPercent, highest = kLeastPercent;
  for (const CellSamples* cell : cells)
    for (size_t i = 0; i < cell->step_time_us.size(); ++i) {
      const double percent = percent_from_median(*cell, i);
      least = std::min(least, percent), highest = std::max(highest, percent);
      if (!cell->outlier[i]) steady = std::max(steady, std::abs(percent));
    }
  const double most = kBeyond * steady;
  Reach reach{std::max(1.05 * least, -most), std::min(1.05 * highest, most), {}, {}};
  const double room = kRoomForWords * (reach.high - reach.low);
  if (least < reach.low) reach.below = reach.low - room;
  if (highest > reach.high) reach.beyond = reach.high + room;
  return reach;
}

// Label at the farthest run of a cell outside of the range: "at +91.3 %", "3 runs, the last at +91.3 %".
std::string beyond_text(size_t count, double farthest) {
  const std::string value = fmt::format("at {:+.1f} %", farthest);
  return count == 1 ? value : fmt::format("{} runs, the last {}", count, value);
}

// The runs of a cell outside of the axis on one side, and the row of the farthest.
struct Outside {
  size_t count = 0, row = 0;
  double farthest = 0;
  void add(double percent, size_t at) {
    ++count;
    if (std::abs(percent) > std::abs(farthest)) farthest = percent, row = at;
  }
};

void add_rows(DataTable& table, const CellSamples& cell, const std::string& name, const Reach& reach) {
  Outside beyond, below;
  for (size_t i = 0; i < cell.step_time_us.size(); ++i) {
    const double percent = percent_from_median(cell, i);
    const char* drawn = cell.outlier[i] ? kCross : kTick;
    double place = percent;
    if (reach.beyond && percent > reach.high)
      drawn = kAbove, place = *reach.beyond, beyond.add(percent, table.rows.size());
    else if (reach.below && percent < reach.low)
      drawn = kBelow, place = *reach.below, below.add(percent, table.rows.size());
    table.rows.push_back({name,
                          static_cast<int64_t>(i),
                          cell.step_time_us[i],
                          percent,
                          std::string(cell.outlier[i] ? "yes" : "no"),
                          place,
                          std::string(drawn),
                          {},
                          {}});
  }
  constexpr size_t kBeyondColumn = 7, kBelowColumn = 8;
  if (beyond.count > 0) table.rows[beyond.row][kBeyondColumn] = beyond_text(beyond.count, beyond.farthest);
  if (below.count > 0) table.rows[below.row][kBelowColumn] = beyond_text(below.count, below.farthest);
}

}  // namespace

std::optional<Chart> samples_chart(const StudySummary& summary, const StudyGroup& group,
                                   const std::vector<CellSamples>& all) {
  const ConfigurationNames names(summary, group);
  const DeviceWords words = device_text(summary.device_kind);
  std::vector<const CellSamples*> cells;
  for (const CellSamples& cell : all)
    if (group_of(cell.key) == group && cell.median_us > 0 && !cell.step_time_us.empty()) cells.push_back(&cell);
  if (cells.empty()) return std::nullopt;
  const Reach reach = reach_of(cells);
  Chart chart;
  chart.table.columns = {{"cell", "Cell"},
                         {"run", "Run"},
                         {"step_time_us", "Step time (us)"},
                         {"deviation_percent", "Against the median (%)"},
                         {"outlier", "Outlier"},
                         {"shown_percent", "Drawn at (%)"},
                         {"drawn", "Drawn as"},
                         {"beyond", "Words beyond"},
                         {"below", "Words below"}};
  std::vector<std::string> order;
  int64_t outliers = 0;
  double widest = 0;
  for (const CellSamples* cell : cells) {
    order.push_back(names.cell(cell->key));
    chart.origin = cell->origin;
    outliers += std::count(cell->outlier.begin(), cell->outlier.end(), true);
    for (size_t i = 0; i < cell->step_time_us.size(); ++i)
      widest = std::max(widest, std::abs(percent_from_median(*cell, i)));
    add_rows(chart.table, *cell, order.back(), reach);
  }
  chart.id = "samples-" + group_slug(group);
  chart.title = "Every run: step time against the median of its cell (%)";
  ordered_json spec = filled(kSamplesSpec, {{"cells", order},
                                            {"height", 20 * order.size()},
                                            {"domain", {reach.first(), reach.last()}},
                                            {"tooltip", ordered_json::parse(kTooltip)}});
  drop_empty_layers(spec, chart.table);
  chart.spec = spec.dump();
  const auto total = static_cast<int64_t>(chart.table.rows.size());
  chart.summary = fmt::format(
      "{} run{} in {} cell{}; a cell is a batch on a number of {}. {} flagged as outliers (modified z above 3.5), "
      "drawn as crosses{} and kept in every number. Farthest from its median: {} %.",
      with_thousands(total), total == 1 ? "" : "s", order.size(), order.size() == 1 ? "" : "s", words.many,
      outliers == 0 ? "None is" : fmt::format("{} {}", outliers, outliers == 1 ? "is" : "are"),
      reach.beyond || reach.below ? ", or beyond the axis as triangles with their value," : "", format_number(widest));
  return chart;
}

}  // namespace amdahl

#include "chart/compare_chart.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chart/spec_parts.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

std::string speed_title(const SpeedPlot& plot) { return "Speed over " + plot.baseline; }

std::string spec_of(const DataTable& table, const SpeedPlot& plot) {
  constexpr size_t kLowColumn = 3;  // column of chart.table
  constexpr size_t kDotHeight = 24, kShortest = 60;
  const ordered_json x{{"field", "speed"},
                       {"type", "quantitative"},
                       {"title", speed_title(plot) + " (above 1: faster)"},
                       {"scale", {{"type", "log"}, {"nice", false}, {"padding", 14}}},
                       {"axis", number_axis()}};
  const ordered_json y{
      {"field", "cell"}, {"type", "nominal"}, {"title", nullptr}, {"sort", nullptr}, {"axis", {{"labelLimit", 320}}}};
  const ordered_json offset{{"field", "run"}, {"sort", nullptr}};
  ordered_json colour{{"field", "run"}, {"type", "nominal"}, {"title", "Run"}, {"sort", nullptr}};
  const bool is_one = std::all_of(plot.dots.begin(), plot.dots.end(),
                                  [&](const SpeedDot& dot) { return dot.run == plot.dots.front().run; });
  if (is_one) colour["legend"] = nullptr;
  ordered_json tooltip = ordered_json::array();
  for (const TableColumn& column : table.columns) tooltip.push_back({{"field", column.name}, {"title", column.title}});
  ordered_json low = x;
  low["field"] = "low";
  const bool intervals = std::any_of(table.rows.begin(), table.rows.end(), [](const std::vector<TableValue>& row) {
    return !std::holds_alternative<std::monostate>(row[kLowColumn]);
  });
  ordered_json layers = ordered_json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"style", "limit"}}}, {"encoding", {{"x", {{"datum", 1}}}}}});
  if (intervals)  // a layer without rows has no scale
    layers.push_back(
        {{"transform", {{{"filter", "isValid(datum.low)"}}}},
         {"mark", {{"type", "rule"}, {"style", "interval"}}},
         {"encoding", {{"x", low}, {"x2", {{"field", "high"}}}, {"y", y}, {"yOffset", offset}, {"color", colour}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"filled", true}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y},
                      {"yOffset", offset},
                      {"color", colour},
                      {"shape", {{"field", "verdict"}, {"type", "nominal"}, {"title", "Verdict"}}},
                      {"tooltip", tooltip}}}});
  return ordered_json{{"data", {{"name", "table"}}},
                      {"width", 420},
                      {"height", std::max(kShortest, kDotHeight * plot.dots.size())},
                      {"layer", layers}}
      .dump();
}

}  // namespace

std::optional<Chart> compare_chart(const SpeedPlot& plot) {
  if (plot.dots.empty()) return std::nullopt;
  Chart chart;
  chart.id = plot.id;
  chart.title = plot.title;
  chart.summary = plot.summary;
  chart.table.columns = {{"cell", "Cell"},
                         {"run", "Run"},
                         {"speed", speed_title(plot)},
                         {"low", "95 % interval, low"},
                         {"high", "95 % interval, high"},
                         {"n_baseline", "Samples of " + plot.baseline},
                         {"n_run", "Samples of the run"},
                         {"verdict", "Verdict"}};
  for (const SpeedDot& dot : plot.dots)
    chart.table.rows.push_back(
        {dot.cell, dot.run, dot.speed, dot.interval ? TableValue(dot.interval->low) : TableValue(),
         dot.interval ? TableValue(dot.interval->high) : TableValue(), dot.n_baseline, dot.n_run, dot.verdict});
  chart.spec = spec_of(chart.table, plot);
  return chart;
}

}  // namespace amdahl

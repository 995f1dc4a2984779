#include "chart/cost_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/spec_parts.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

/// Sizes from which a configuration pays: one rule each.
std::vector<const CostBreakEven*> marks_of(const CostReport& report, const CostPlot& plot) {
  std::vector<const CostBreakEven*> marks;
  for (const CostBreakEven& found : report.break_evens)
    if (found.work == plot.work && found.by_price && found.by_price->value) marks.push_back(&found);
  return marks;
}

bool energy_was_read(const CostReport& report, const CostPlot& plot) {
  return std::any_of(report.rows.begin(), report.rows.end(), [&](const CostRow& row) {
    return row.work == plot.work && row.work_per_price && row.joule_per_work;
  });
}

/// Rows of results, then rows of break-evens, which have a position instead of work values.
DataTable table_of(const CostReport& report, const CostPlot& plot) {
  DataTable table;
  const std::string currency = report.currency;
  const bool metered = energy_was_read(report, plot);
  table.columns = {{"configuration", "Configuration"},
                   {"size", plot.size_title},
                   {"work_per_hour", "Work per hour"},
                   {"work_per_price", fmt::format("Work for 1 {}", currency)},
                   {"low", "95 % interval, low"},
                   {"high", "95 % interval, high"},
                   {"n", "Samples"},
                   {"break_even_size", "Break-even by price"}};
  if (metered) table.columns.push_back({"work_per_joule", "Work for 1 J"});
  for (const CostRow& row : report.rows) {
    if (row.work != plot.work || !row.work_per_price) continue;
    const auto& ci = row.work_per_price_ci;
    table.rows.push_back({row.configuration,
                          row.size,
                          row.work_per_hour,
                          *row.work_per_price,
                          ci ? TableValue(ci->low) : TableValue(),
                          ci ? TableValue(ci->high) : TableValue(),
                          row.n,
                          {}});
    if (metered) table.rows.back().push_back(row.joule_per_work ? TableValue(1 / *row.joule_per_work) : TableValue());
  }
  for (const CostBreakEven* mark : marks_of(report, plot)) {
    table.rows.push_back({mark->configuration, {}, {}, {}, {}, {}, {}, *mark->by_price->value});
    if (metered) table.rows.back().emplace_back();
  }
  return table;
}

ordered_json size_axis(const CostPlot& plot, const DataTable& table) {
  std::set<int64_t> sizes;
  for (const std::vector<TableValue>& row : table.rows)
    if (const auto* size = std::get_if<int64_t>(&row[1])) sizes.insert(*size);
  return {
      {"field", "size"},
      {"type", "quantitative"},
      {"title", plot.size_title},
      {"scale", {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", 14}}},
      {"axis",
       {{"grid", false}, {"values", sizes}, {"format", ",~r"}, {"labelOverlap", "greedy"}, {"labelSeparation", 6}}}};
}

ordered_json work_axis(const DataTable& table, const char* field, const std::string& title) {
  Interval extent{INFINITY, 0};
  include_positive(extent, table, column_index(table, field));
  if (field == std::string_view("work_per_price"))
    for (const char* end : {"low", "high"}) include_positive(extent, table, column_index(table, end));
  nlohmann::json axis = {{"field", field}, {"type", "quantitative"}, {"title", title}, {"axis", {{"format", "~s"}}}};
  set_log_scale(axis, extent);
  return axis;
}

ordered_json colour() {
  return {{"field", "configuration"},
          {"type", "nominal"},
          {"title", nullptr},
          {"legend", {{"orient", "bottom"}, {"columns", 1}}}};
}

ordered_json sizes_tooltip(const DataTable& table) {
  ordered_json fields = ordered_json::array();
  for (const TableColumn& column : table.columns)
    if (column.name != "break_even_size") fields.push_back({{"field", column.name}, {"title", column.title}});
  return fields;
}

struct PanelLayers {
  bool intervals = false, marks = false;
};

/// One panel: lines with points, intervals if there are any, rules at break-even sizes.
ordered_json panel(const CostPlot& plot, const DataTable& table, const char* field, const std::string& title,
                   PanelLayers with) {
  const ordered_json x = size_axis(plot, table), y = work_axis(table, field, title);
  ordered_json layers = ordered_json::array();
  layers.push_back({{"transform", {{{"filter", fmt::format("isValid(datum.size) && isValid(datum.{})", field)}}}},
                    {"mark", {{"type", "line"}, {"point", true}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour()}, {"tooltip", sizes_tooltip(table)}}}});
  if (with.intervals) {
    ordered_json low = y;
    low["field"] = "low";
    layers.push_back({{"transform", {{{"filter", "isValid(datum.low)"}}}},
                      {"mark", {{"type", "rule"}, {"style", "interval"}}},
                      {"encoding", {{"x", x}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", colour()}}}});
  }
  ordered_json at = x;
  at["field"] = "break_even_size";
  if (with.marks)  // a layer without rows has no scale
    layers.push_back({{"transform", {{{"filter", "isValid(datum.break_even_size)"}}}},
                      {"mark", {{"type", "rule"}, {"style", "marker"}, {"strokeDash", {2, 3}}}},
                      {"encoding",
                       {{"x", at},
                        {"color", colour()},
                        {"tooltip",
                         {{{"field", "configuration"}, {"title", "Break-even by price"}},
                          {{"field", "break_even_size"}, {"title", plot.size_title}, {"format", ".3~s"}}}}}}});
  return {{"width", 300}, {"height", 260}, {"layer", layers}};
}

std::string summary_of(const CostReport& report, const CostPlot& plot) {
  const CostRow *fastest = nullptr, *cheapest = nullptr;
  for (const CostRow& row : report.rows) {
    if (row.work != plot.work || !row.work_per_price) continue;
    if (!fastest || row.work_per_hour > fastest->work_per_hour) fastest = &row;
    if (!cheapest || *row.work_per_price > *cheapest->work_per_price) cheapest = &row;
  }
  std::string text = fmt::format(
      "Most work per hour: {} at {} {}, {} {}. Most work per {}: {} at {} {}, {} {}.", fastest->configuration,
      format_axis(fastest->size_name), with_thousands(fastest->size), short_number(fastest->work_per_hour),
      fastest->unit, report.currency, cheapest->configuration, format_axis(cheapest->size_name),
      with_thousands(cheapest->size), short_number(*cheapest->work_per_price), cheapest->unit);
  for (const CostBreakEven& found : report.break_evens)
    if (found.work == plot.work && found.by_price)
      text += found.by_price->value ? fmt::format(" Break-even of {} at about {}.", found.configuration,
                                                  format_number(*found.by_price->value))
              : found.by_price->answer == BreakEven::Answer::always
                  ? fmt::format(" {} pays off at every measured size.", found.configuration)
                  : fmt::format(" {} does not pay off at any measured size.", found.configuration);
  return text;
}

}  // namespace

std::optional<Chart> cost_chart(const CostReport& report, const CostPlot& plot) {
  Chart chart;
  chart.table = table_of(report, plot);
  const auto drawn = std::find_if(report.rows.begin(), report.rows.end(),
                                  [&](const CostRow& row) { return row.work == plot.work && row.work_per_price; });
  if (drawn == report.rows.end()) return std::nullopt;
  chart.id = plot.id;
  chart.title = fmt::format("{}/h and {} for 1 {}", drawn->unit, drawn->unit, report.currency);
  chart.summary = summary_of(report, plot);
  chart.origin = drawn->origin;
  const bool marks = !marks_of(report, plot).empty();
  ordered_json panels{panel(plot, chart.table, "work_per_hour", drawn->unit + " per hour", {false, marks}),
                      panel(plot, chart.table, "work_per_price",
                            fmt::format("{} for 1 {}", drawn->unit, report.currency), {true, marks})};
  if (energy_was_read(report, plot))
    panels.push_back(panel(plot, chart.table, "work_per_joule", drawn->unit + " for 1 J", {false, marks}));
  chart.wide = true;
  chart.spec = ordered_json{{"data", {{"name", "table"}}}, {"columns", 2}, {"concat", panels}}.dump();
  return chart;
}

}  // namespace amdahl

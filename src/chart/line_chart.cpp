#include "chart/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/bar_chart.h"
#include "chart/document.h"
#include "chart/spec_parts.h"

namespace amdahl {

using nlohmann::json;

namespace {

constexpr const char *kPoint = "point", *kCurve = "curve", *kLimit = "limit", *kCrossing = "crossing";

bool shows(const LinePlot& plot, const LinePoint& point) {
  if (!std::isfinite(point.x) || !std::isfinite(point.y)) return false;
  return (plot.x_scale == LinePlot::XScale::linear || point.x > 0) && (!plot.log_y || point.y > 0);
}

/// Splits series into panels of at most kMostSeriesOfAPicture names; assigns series and rules to panels.
class Panels {
 public:
  explicit Panels(const LinePlot& plot) {
    std::map<std::string, std::vector<std::string>> names;
    for (const LineSeries& series : plot.series) {
      std::vector<std::string>& list = names[series.panel];
      if (std::find(list.begin(), list.end(), series.name) == list.end()) list.push_back(series.name);
    }
    for (const auto& [panel, list] : names) {
      const size_t parts = (list.size() + kMostSeriesOfAPicture - 1) / kMostSeriesOfAPicture;
      const size_t each = (list.size() + parts - 1) / parts;
      for (size_t i = 0; i < list.size(); ++i) panel_of_[{panel, list[i]}] = part_name(panel, i / each, parts);
      for (size_t part = 0; part < parts; ++part) parts_[panel].push_back(part_name(panel, part, parts));
    }
  }

  const std::string& of(const LineSeries& series) const { return panel_of_.at({series.panel, series.name}); }
  /// The panels in which a rule of that panel is drawn.
  std::vector<std::string> all_of(const std::string& panel) const {
    const auto found = parts_.find(panel);
    return found == parts_.end() ? std::vector<std::string>{} : found->second;
  }

 private:
  static std::string part_name(const std::string& panel, size_t part, size_t parts) {
    if (parts == 1) return panel;
    return fmt::format("{}{} of {}", panel.empty() ? "" : panel + ", ", part + 1, parts);
  }

  std::map<std::pair<std::string, std::string>, std::string> panel_of_;
  std::map<std::string, std::vector<std::string>> parts_;
};

TableValue number(double value) { return value; }

TableValue end_of(const std::optional<Interval>& interval, bool high) {
  if (!interval) return {};
  return number(high ? interval->high : interval->low);
}

/// Integer x values (counts, bytes) stay integers.
TableValue x_value(double x) {
  if (x == std::floor(x) && std::fabs(x) < 9e15) return static_cast<int64_t>(x);
  return x;
}

DataTable table_of(const LinePlot& plot, bool with_panels) {
  DataTable table;
  table.columns = {{"series", plot.series_title},
                   plot.x,
                   plot.y,
                   {"low", plot.interval_title + ", low"},
                   {"high", plot.interval_title + ", high"},
                   {"samples", "samples"},
                   {"origin", "origin"},
                   {"kind", "kind"}};
  if (with_panels) table.columns.push_back({"panel", "panel"});
  return table;
}

void add_row(DataTable& table, const std::string& panel, std::vector<TableValue> row) {
  if (row.size() < table.columns.size()) row.emplace_back(panel);
  table.rows.push_back(std::move(row));
}

bool has_panels(const LinePlot& plot, const Panels& panels) {
  return std::any_of(plot.series.begin(), plot.series.end(),
                     [&](const LineSeries& series) { return !panels.of(series).empty(); });
}

DataTable rows_of(const LinePlot& plot, const Panels& panels) {
  DataTable table = table_of(plot, has_panels(plot, panels));
  for (const LineSeries& series : plot.series)
    for (const LinePoint& point : series.points) {
      if (!shows(plot, point)) continue;
      const bool modelled = series.origin == Origin::modelled;
      add_row(table, panels.of(series),
              {series.name, x_value(point.x), number(point.y), end_of(point.interval, false),
               end_of(point.interval, true), modelled ? TableValue{} : TableValue{point.samples},
               std::string(origin_text(series.origin)), std::string(modelled ? kCurve : kPoint)});
    }
  if (table.rows.empty()) return table;
  for (const LineRule& rule : plot.limits)
    for (const std::string& panel : panels.all_of(rule.panel))
      add_row(table, panel,
              {rule.words,
               {},
               number(rule.at),
               {},
               {},
               {},
               std::string(origin_text(Origin::modelled)),
               std::string(kLimit)});
  for (const LineRule& rule : plot.crossings)
    for (const std::string& panel : panels.all_of(rule.panel))
      add_row(table, panel,
              {rule.words,
               x_value(rule.at),
               {},
               {},
               {},
               {},
               std::string(origin_text(Origin::measured)),
               std::string(kCrossing)});
  return table;
}

// ---- one x value ----

/// Whether a measured series has the same name and panel, so that the modelled one is a bound of its bars.
bool is_measured_too(const LinePlot& plot, const LineSeries& series) {
  return std::any_of(plot.series.begin(), plot.series.end(), [&](const LineSeries& other) {
    return other.origin != Origin::modelled && other.name == series.name && other.panel == series.panel;
  });
}

std::optional<double> modelled_at(const LinePlot& plot, const LineSeries& series) {
  for (const LineSeries& other : plot.series)
    if (other.origin == Origin::modelled && other.name == series.name && other.panel == series.panel &&
        !other.points.empty())
      return other.points.front().y;
  for (const LineRule& limit : plot.limits)
    if (limit.panel == series.panel) return limit.at;
  return std::nullopt;
}

std::string place_text(const LinePlot& plot, double x) {
  const auto whole = static_cast<int64_t>(x);
  if (plot.x_scale == LinePlot::XScale::bytes) return binary_bytes(whole);
  return static_cast<double>(whole) == x ? with_thousands(whole) : fmt::format("{:g}", x);
}

/// A bar chart instead of single dots: one bar per series.
std::optional<Chart> bars_at(const LinePlot& plot, double x) {
  const std::string place = place_text(plot, x);
  BarPlot bars{plot.id, plot.title, plot.summary,        {"series", plot.series_title},
               plot.y,  "",         plot.interval_title, "modelled",
               false,   {}};
  if (!plot.limits.empty()) bars.bound_title = plot.limits.front().words;
  bars.title = plot.title_at_one.empty() ? plot.title : plot.title_at_one;
  if (const size_t hole = bars.title.find("{}"); hole != std::string::npos)
    bars.title.replace(hole, 2, place);
  else
    bars.summary += fmt::format(" {}: {}.", plot.x.title, place);
  for (const LineSeries& series : plot.series)
    for (const LinePoint& point : series.points) {
      if (!shows(plot, point) || (series.origin == Origin::modelled && is_measured_too(plot, series))) continue;
      const std::string name = series.panel.empty() ? series.name : fmt::format("{}, {}", series.panel, series.name);
      bars.bars.push_back({name, "", point.y, point.interval, modelled_at(plot, series), point.samples, series.origin});
    }
  return bar_chart(bars);
}

/// The only x value of all points; nullopt if there are more.
std::optional<double> one_place(const LinePlot& plot) {
  std::set<double> places;
  for (const LineSeries& series : plot.series)
    for (const LinePoint& point : series.points)
      if (shows(plot, point)) places.insert(point.x);
  if (places.size() != 1) return std::nullopt;
  return *places.begin();
}

// ---- the specification ----

constexpr int kPadding = 12;  // pixels between the axis and the first point

/// The ticks of the x axis, if they are whole numbers and few enough for each to have a label.
json few_places(const LinePlot& plot, const DataTable& table) {
  constexpr size_t kMostLabels = 10;
  std::set<int64_t> places;
  const size_t column = column_index(table, plot.x.name);
  for (const std::vector<TableValue>& row : table.rows)
    if (const auto* place = std::get_if<int64_t>(&row[column]))
      places.insert(*place);
    else if (std::holds_alternative<double>(row[column]))
      return {};
  return places.size() <= kMostLabels ? json(places) : json();
}

json x_channel(const LinePlot& plot, const DataTable& table) {
  json x = channel(table, plot.x.name, "quantitative");
  if (plot.x_scale == LinePlot::XScale::linear) {
    x["scale"] = {{"zero", false}, {"nice", false}, {"padding", kPadding}};
    x["axis"] = number_axis();
    x["axis"]["tickMinStep"] = 1;
  } else {
    x["scale"] = {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", kPadding}};
    x["axis"] = plot.x_scale == LinePlot::XScale::bytes ? bytes_axis() : number_axis();
  }
  if (const json places = few_places(plot, table); !places.is_null()) x["axis"]["values"] = places;
  return x;
}

/// The extent of the y axes, which panels share: values, interval ends, limits.
Interval y_extent(const LinePlot& plot) {
  Interval extent{INFINITY, 0};
  const auto include = [&](double value) {
    if (value > 0 && std::isfinite(value)) extent = {std::min(extent.low, value), std::max(extent.high, value)};
  };
  for (const LineSeries& series : plot.series)
    for (const LinePoint& point : series.points) {
      if (!shows(plot, point)) continue;
      include(point.y);
      if (point.interval) include(point.interval->low), include(point.interval->high);
    }
  for (const LineRule& limit : plot.limits) include(limit.at);
  return extent;
}

json y_channel(const LinePlot& plot, const DataTable& table) {
  json y = channel(table, plot.y.name, "quantitative");
  y["axis"] = number_axis();
  if (plot.log_y) set_log_scale(y, y_extent(plot));
  return y;
}

/// The names of rows of these kinds, in order.
json names_of(const DataTable& table, std::initializer_list<std::string_view> kinds) {
  const size_t name = column_index(table, "series"), kind = column_index(table, "kind");
  json names = json::array();
  std::set<std::string> seen;
  for (const std::vector<TableValue>& row : table.rows)
    if (std::find(kinds.begin(), kinds.end(), std::get<std::string>(row[kind])) != kinds.end() &&
        seen.insert(std::get<std::string>(row[name])).second)
      names.push_back(std::get<std::string>(row[name]));
  return names;
}

/// The names of the lines in order, without rules.
json line_names(const DataTable& table) { return names_of(table, {kPoint, kCurve}); }

json series_channel(const DataTable& table) {
  json series = channel(table, "series", "nominal");
  series["scale"] = {{"domain", line_names(table)}};
  series["sort"] = nullptr;
  series["legend"] = line_names(table).size() > 1 ? json{{"columns", 2}} : json();
  const json with_points = names_of(table, {kPoint});  // the legend shows points: a line without them has none
  if (series["legend"].is_object() && !with_points.empty()) series["legend"]["values"] = with_points;
  return series;
}

/// Whether some row has an interval that the scale can show: on a logarithmic scale an interval that reaches 0 is only
/// in the table.
bool has_intervals(const LinePlot& plot, const DataTable& table) {
  const size_t low = column_index(table, "low");
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const std::vector<TableValue>& row) {
    const auto* value = std::get_if<double>(&row[low]);
    return value && (!plot.log_y || *value > 0);
  });
}

json interval_layer(const LinePlot& plot, const DataTable& table) {
  json low = channel(table, "low", "quantitative");
  low["title"] = plot.y.title;
  if (plot.log_y) set_log_scale(low, y_extent(plot));
  const json place = plot.log_y ? json{{"field", "low"}, {"gt", 0}} : json{{"field", "low"}, {"valid", true}};
  return {{"transform", {only_rows("kind", kPoint), {{"filter", place}}}},
          {"mark", {{"type", "rule"}, {"style", "interval"}}},
          {"encoding",
           {{"x", x_channel(plot, table)}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", series_channel(table)}}}};
}

json lines_and_points(const LinePlot& plot, const DataTable& table) {
  const json x = x_channel(plot, table), y = y_channel(plot, table), series = series_channel(table);
  const json lines =
      plot.joined ? json{{"filter", {{"field", "kind"}, {"oneOf", {kPoint, kCurve}}}}} : only_rows("kind", kCurve);
  json layers = json::array();
  layers.push_back({{"transform", {lines}},
                    {"mark", "line"},
                    {"encoding", {{"x", x}, {"y", y}, {"color", series}, {"strokeDash", origin_dash(table)}}}});
  if (has_intervals(plot, table)) layers.push_back(interval_layer(plot, table));
  layers.push_back(
      {{"transform", {only_rows("kind", kPoint)}},
       {"mark", {{"type", "point"}, {"filled", true}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", series}, {"shape", series}, {"tooltip", tooltip(table)}}}});
  return layers;
}

json rule_layers(const LinePlot& plot, const DataTable& table, bool limits) {
  const json place = limits ? y_channel(plot, table) : x_channel(plot, table);
  const char* axis = limits ? "y" : "x";
  json words = {{axis, place}, {"text", {{"field", "series"}, {"type", "nominal"}}}};
  json text = {{"type", "text"}, {"style", limits ? "limit-label" : "mark-label"}};
  if (limits) {
    words["x"] = {{"value", 6}};
    text["align"] = "left", text["dy"] = -7;
  } else {
    words["y"] = {{"value", 0}};
    text["align"] = "left", text["dx"] = 5, text["dy"] = 8;
  }
  const json rows = only_rows("kind", limits ? kLimit : kCrossing);
  return {{{"transform", {rows}},
           {"mark", {{"type", "rule"}, {"style", limits ? "limit" : "marker"}}},
           {"encoding", {{axis, place}}}},
          {{"transform", {rows}}, {"mark", text}, {"encoding", words}}};
}

/// The rows of one panel, to find the names of its lines.
DataTable panel_table(const DataTable& table, const std::string& panel) {
  const size_t column = column_index(table, "panel");
  DataTable part{table.columns, {}};
  for (const std::vector<TableValue>& row : table.rows)
    if (std::get<std::string>(row[column]) == panel) part.rows.push_back(row);
  return part;
}

json layers_of(const LinePlot& plot, const DataTable& table) {
  json layers = lines_and_points(plot, table);
  const std::vector<std::string> kinds = words_of_column(table, "kind");
  for (const char* kind : {kLimit, kCrossing})
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
      for (json& layer : rule_layers(plot, table, kind == std::string_view(kLimit))) layers.push_back(std::move(layer));
  return layers;
}

/// Panels whose lines have the same names share a legend; others have one each.
json spec_of(const LinePlot& plot, const DataTable& table, bool with_panels) {
  constexpr int kBetweenPanels = 44;  // pixels, for half of the outermost labels of two axes
  constexpr int kHeight = 320, kPanelHeight = 220;
  json spec = start_spec(kHeight);
  if (!with_panels) {
    spec["layer"] = layers_of(plot, table);
    return spec;
  }
  spec.erase("width"), spec.erase("height");
  spec["columns"] = 2;
  if (line_names(table).size() <= kMostSeriesOfAPicture) {
    spec["facet"] = {
        {"field", "panel"}, {"type", "nominal"}, {"title", nullptr}, {"sort", words_of_column(table, "panel")}};
    spec["spacing"] = kBetweenPanels;
    spec["spec"] = {{"width", kPanelWidth}, {"height", kPanelHeight}, {"layer", layers_of(plot, table)}};
    return spec;
  }
  spec["spacing"] = kBetweenPanels;
  spec["concat"] = json::array();
  for (const std::string& panel : words_of_column(table, "panel"))
    spec["concat"].push_back({{"title", panel},
                              {"width", kPanelWidth},
                              {"height", kPanelHeight},
                              {"transform", {only_rows("panel", panel)}},
                              {"layer", layers_of(plot, panel_table(table, panel))}});
  spec["resolve"] = {{"scale", {{"color", "independent"}, {"shape", "independent"}, {"x", "shared"}, {"y", "shared"}}}};
  return spec;
}

}  // namespace

std::optional<Chart> line_chart(const LinePlot& plot) {
  if (const std::optional<double> place = one_place(plot)) return bars_at(plot, *place);
  const Panels panels(plot);
  Chart chart;
  chart.table = rows_of(plot, panels);
  if (chart.table.rows.empty()) return std::nullopt;
  chart.id = plot.id, chart.title = plot.title, chart.summary = plot.summary;
  for (const LineSeries& series : plot.series)
    if (series.origin == Origin::emulated) chart.origin = Origin::emulated;
  chart.spec = spec_of(plot, chart.table, has_panels(plot, panels)).dump();
  chart.wide = has_panels(plot, panels);
  return chart;
}

}  // namespace amdahl

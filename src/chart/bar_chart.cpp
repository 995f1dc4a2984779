#include "chart/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "chart/document.h"
#include "chart/spec_parts.h"

namespace amdahl {

using nlohmann::json;

namespace {

bool any_of_bars(const BarPlot& plot, bool (*has)(const Bar&)) {
  return std::any_of(plot.bars.begin(), plot.bars.end(), has);
}

/// Which optional values the bars of a plot have; columns without values are left out.
struct Kinds {
  explicit Kinds(const BarPlot& plot)
      : parts(any_of_bars(plot, [](const Bar& bar) { return !bar.part.empty(); })),
        intervals(any_of_bars(plot, [](const Bar& bar) { return bar.interval.has_value(); })),
        bounds(any_of_bars(plot, [](const Bar& bar) { return bar.bound.has_value(); })) {}
  bool parts, intervals, bounds;
};

DataTable table_of(const BarPlot& plot, const Kinds& kinds) {
  DataTable table;
  table.columns = {plot.name, plot.value, {"samples", "samples"}, {"origin", "origin"}};
  if (kinds.parts) table.columns.push_back({"part", plot.part_title});
  if (kinds.intervals) {
    table.columns.push_back({"low", plot.interval_title + ", low"});
    table.columns.push_back({"high", plot.interval_title + ", high"});
  }
  if (kinds.bounds) table.columns.push_back({"bound", plot.bound_title});
  for (const Bar& bar : plot.bars) {
    std::vector<TableValue> row{bar.name, bar.value, bar.samples, std::string(origin_text(bar.origin))};
    if (kinds.parts) row.emplace_back(bar.part);
    if (kinds.intervals) {
      row.push_back(bar.interval ? TableValue{bar.interval->low} : TableValue{});
      row.push_back(bar.interval ? TableValue{bar.interval->high} : TableValue{});
    }
    if (kinds.bounds) row.push_back(bar.bound ? TableValue{*bar.bound} : TableValue{});
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// A round number above all drawn values.
double end_of_axis(const BarPlot& plot) {
  if (plot.percent) return 100;
  std::map<std::string, double> sums;  // sum of the parts per bar
  double most = 0;
  for (const Bar& bar : plot.bars) {
    const double sum = bar.part.empty() ? bar.value : sums[bar.name] += bar.value;
    most = std::max({most, sum, bar.bound.value_or(0), bar.interval ? bar.interval->high : 0});
  }
  constexpr double kMargin = 1.02;  // space for half of the tick of a bound
  return round_above(kMargin * most);
}

json x_channel(const BarPlot& plot, const DataTable& table, const char* column) {
  json x = channel(table, column, "quantitative");
  x["title"] = plot.value.title;
  x["axis"] = number_axis();
  x["axis"]["tickCount"] = 5;
  x["scale"] = {{"domain", {0, end_of_axis(plot)}}};
  return x;
}

/// A named colour that is no column: for bars and their bounds.
json named_colour(const std::string& name, bool legend) {
  json colour = {{"datum", name}, {"type", "nominal"}};
  if (!legend) colour["legend"] = nullptr;
  return colour;
}

/// The bars whose number fits between their start and the first of their end and their interval, or the others.
json with_room(const BarPlot& plot, const Kinds& kinds, bool room) {
  constexpr int kNumber = 55;  // pixels that a number needs
  const std::string value = "datum['" + plot.value.name + "']";
  const auto extreme = [&](const char* of, const char* end) {
    return kinds.intervals ? fmt::format("{0}({1}, isValid(datum.{2}) ? datum.{2} : {1})", of, value, end) : value;
  };
  return {{{"calculate", extreme("max", "high")}, {"as", "end"}},
          {{"filter",
            fmt::format("{} {} {} / width", extreme("min", "low"), room ? ">" : "<=", kNumber * end_of_axis(plot))}}};
}

/// Numbers after the bars without room for them, and after their intervals.
json outer_words(const BarPlot& plot, const json& bars, const Kinds& kinds) {
  return {{"mark", {{"type", "text"}, {"align", "left"}, {"dx", 6}, {"style", "mark-label"}}},
          {"transform", with_room(plot, kinds, false)},
          {"encoding",
           {{"x", {{"field", "end"}, {"type", "quantitative"}}},
            {"y", bars["y"]},
            {"text", {{"field", plot.value.name}, {"type", "quantitative"}, {"format", ",.4~r"}}}}}};
}

/// Numbers inside the bars that are long enough.
json bar_text(const BarPlot& plot, const json& bars, const Kinds& kinds) {
  return {{"mark", {{"type", "text"}, {"align", "left"}, {"style", "bar-words"}}},
          {"transform", with_room(plot, kinds, true)},
          {"encoding",
           {{"x", {{"value", 7}}},  // pixels: at the start of the bar, away from the interval
            {"y", bars["y"]},
            {"text", {{"field", plot.value.name}, {"type", "quantitative"}, {"format", ",.4~r"}}}}}};
}

/// Numbers inside the parts of a bar that are long enough: of those in the palette's one pale colour, or of the others.
json part_text(const BarPlot& plot, const json& bars, const DataTable& table, bool pale) {
  constexpr int kLeastPart = 7;      // percent
  constexpr size_t kPaleColour = 1;  // the orange, on which white is not readable
  std::vector<std::string> parts = words_of_column(table, "part");
  std::sort(parts.begin(), parts.end());  // the order in which they get colours
  json shown = json::array();
  for (size_t i = 0; i < parts.size(); ++i)
    if ((i == kPaleColour) == pale) shown.push_back(parts[i]);
  return {
      {"mark", {{"type", "text"}, {"align", "right"}, {"dx", -5}, {"style", pale ? "pale-bar-words" : "bar-words"}}},
      {"transform",
       {{{"stack", plot.value.name},
         {"groupby", {plot.name.name}},
         {"sort", {{{"field", "part"}}}},
         {"as", {"part_start", "part_end"}}},
        {{"filter", {{"field", plot.value.name}, {"gt", kLeastPart}}}},
        {{"filter", {{"field", "part"}, {"oneOf", shown}}}}}},
      {"encoding",
       {{"x", {{"field", "part_end"}, {"type", "quantitative"}}},
        {"y", bars["y"]},
        {"text", {{"field", plot.value.name}, {"type", "quantitative"}, {"format", ".3~g"}}}}}};
}

json layers_of(const BarPlot& plot, const DataTable& table, const Kinds& kinds) {
  json y = channel(table, plot.name.name, "nominal");
  y["sort"] = y["title"] = nullptr;
  y["axis"] = {{"labelLimit", 260}};
  json bars = {{"x", x_channel(plot, table, plot.value.name.c_str())},
               {"y", y},
               {"opacity", origin_opacity(table)},
               {"color", named_colour(plot.value.title, kinds.bounds)},
               {"tooltip", tooltip(table)}};
  json place = json::array();  // of the parts in the bar
  if (kinds.parts) {
    bars["order"] = {{"field", "part"}, {"type", "ordinal"}};
    bars["color"] = channel(table, "part", "nominal");
    if (plot.step_parts) {
      const json scale = step_part_scale();
      bars["color"]["scale"] = scale;
      bars["order"] = {{"field", "part_number"}};
      place = {{{"calculate", "indexof(" + scale["domain"].dump() + ", datum.part)"}, {"as", "part_number"}}};
      bars["color"]["title"] = nullptr;
      bars["color"]["legend"] = {{"values", words_of_column(table, "part")}};
    }
  }
  json layers = json::array();
  layers.push_back(
      {{"transform", place}, {"mark", {{"type", "bar"}, {"height", {{"band", 0.7}}}}}, {"encoding", bars}});
  if (kinds.parts && !plot.step_parts)
    for (const bool pale : {false, true}) layers.push_back(part_text(plot, bars, table, pale));
  if (!kinds.parts)
    for (const json& words : {bar_text(plot, bars, kinds), outer_words(plot, bars, kinds)}) layers.push_back(words);
  if (kinds.intervals) {
    json low = x_channel(plot, table, "low");
    low["field"] = "low_from_0";  // the axis begins there
    layers.push_back({{"transform",
                       {{{"filter", {{"field", "low"}, {"valid", true}}}},
                        {{"calculate", "max(0, datum.low)"}, {"as", "low_from_0"}}}},
                      {"mark", {{"type", "rule"}, {"style", "total"}}},
                      {"encoding", {{"x", low}, {"x2", {{"field", "high"}}}, {"y", y}}}});
  }
  if (kinds.bounds)
    layers.push_back({{"transform", {{{"filter", {{"field", "bound"}, {"valid", true}}}}}},
                      {"mark", {{"type", "tick"}, {"thickness", 4}}},
                      {"encoding",
                       {{"x", x_channel(plot, table, "bound")},
                        {"y", y},
                        {"color", named_colour(plot.bound_title, true)},
                        {"tooltip", tooltip(table)}}}});
  return layers;
}

json spec_of(const BarPlot& plot, const DataTable& table, const Kinds& kinds) {
  constexpr int kBarHeight = 34;
  json spec = start_spec(static_cast<int>(words_of_column(table, plot.name.name).size()) * kBarHeight);
  spec["layer"] = layers_of(plot, table, kinds);
  return spec;
}

}  // namespace

std::optional<Chart> bar_chart(const BarPlot& plot) {
  if (plot.bars.empty()) return std::nullopt;
  const Kinds kinds(plot);
  Chart chart;
  chart.id = plot.id, chart.title = plot.title, chart.summary = plot.summary;
  chart.table = table_of(plot, kinds);
  const auto any = [&](Origin origin) {
    return std::any_of(plot.bars.begin(), plot.bars.end(), [&](const Bar& bar) { return bar.origin == origin; });
  };
  chart.origin = any(Origin::emulated) ? Origin::emulated : any(Origin::measured) ? Origin::measured : Origin::modelled;
  chart.with_modelled = chart.origin != Origin::modelled && any(Origin::modelled);
  chart.spec = spec_of(plot, chart.table, kinds).dump();
  return chart;
}

}  // namespace amdahl

#include "chart/heat_map.h"

#include <algorithm>

#include "chart/spec_parts.h"

namespace amdahl {

using nlohmann::json;

namespace {

DataTable table_of(const HeatMap& map) {
  DataTable table;
  table.columns = {map.row, map.column, map.value, {"words", "shown"}, {"judgement", map.judgement_title}};
  table.columns.insert(table.columns.end(), map.further.begin(), map.further.end());
  for (const HeatCell& cell : map.cells) {
    std::vector<TableValue> row{cell.row, cell.column, cell.value, cell.words, cell.judgement};
    row.insert(row.end(), cell.further.begin(), cell.further.end());
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

json spec_of(const HeatMap& map, const DataTable& table) {
  constexpr int kRowHeight = 46;
  double most = map.full;
  for (const HeatCell& cell : map.cells)
    if (map.full <= 0) most = std::max(most, cell.value);
  json x = channel(table, map.column.name, "ordinal"), y = channel(table, map.row.name, "nominal");
  x["axis"] = map.columns.empty() ? bytes_axis() : json{{"orient", "top"}, {"labelAngle", 0}};
  x["axis"]["labelAngle"] = 0, x["axis"]["domain"] = y["axis"]["domain"] = false;
  x["axis"]["ticks"] = y["axis"]["ticks"] = false;
  y["axis"]["labelLimit"] = 240;
  if (!map.columns.empty()) x["sort"] = map.columns;
  y["sort"] = map.rows;
  json colour = channel(table, map.value.name, "quantitative");
  // The colours of cells are the same on light and dark pages, and so are the colours of the words on them.
  colour["scale"] = {
      {"scheme", map.high_is_dark ? "blues" : "teals"}, {"domain", {0, most > 0 ? most : 1}}, {"clamp", true}};
  if (!map.high_is_dark) colour["scale"]["reverse"] = true;
  colour["legend"] = {{"gradientLength", 160}, {"format", "~g"}};
  json outline = channel(table, "judgement", "nominal");
  outline["scale"] = {{"domain", {map.outlined, map.plain}}, {"range", {"#d9480f", "transparent"}}};
  outline["legend"] = {{"values", {map.outlined}},
                       {"symbolType", "square"},
                       {"symbolFillColor", "transparent"},
                       {"symbolStrokeWidth", 3},
                       {"labelLimit", 240}};
  const std::string dark = "datum['" + map.value.name + "'] " + (map.high_is_dark ? ">" : "<") + " " +
                           json(0.5 * (most > 0 ? most : 1)).dump();
  json spec = start_spec(static_cast<int>(map.rows.size()) * kRowHeight);
  spec["layer"] = {
      {{"mark", {{"type", "rect"}, {"strokeWidth", 3}, {"cornerRadius", 3}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"stroke", outline}, {"tooltip", tooltip(table)}}}},
      {{"mark", {{"type", "text"}, {"fontSize", 12}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"text", {{"field", "words"}, {"type", "nominal"}}},
         {"color", {{"condition", {{"test", dark}, {"value", "#f8fafc"}}}, {"value", "#16202a"}}}}}}};
  spec["config"] = {{"scale", {{"bandPaddingInner", 0.06}}}};
  return spec;
}

}  // namespace

std::optional<Chart> heat_map_chart(const HeatMap& map) {
  if (map.cells.empty()) return std::nullopt;
  Chart chart;
  chart.id = map.id, chart.title = map.title, chart.summary = map.summary;
  chart.table = table_of(map);
  chart.spec = spec_of(map, chart.table).dump();
  return chart;
}

}  // namespace amdahl

#include "chart/heat_map.h"

#include <algorithm>
#include <set>

#include "chart/spec_parts.h"

namespace amdahl {

using nlohmann::json;

namespace {

constexpr double kCellGap = 0.05;  // fraction of a cell

DataTable table_of(const HeatMap& map) {
  const bool judged = !map.judgement_title.empty();
  DataTable table;
  table.columns = {map.row, map.column, map.value, {"words", "shown"}};
  if (judged) table.columns.push_back({"judgement", map.judgement_title});
  table.columns.insert(table.columns.end(), map.further.begin(), map.further.end());
  for (const HeatCell& cell : map.cells) {
    std::vector<TableValue> row{cell.row, cell.column, cell.value, cell.words};
    if (judged) row.emplace_back(cell.judgement);
    row.insert(row.end(), cell.further.begin(), cell.further.end());
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// The test for cells whose colour needs light text.
std::string dark_test(const HeatMap& map, double most) {
  const std::string value = "datum['" + map.value.name + "']";
  return value + (map.high_is_dark ? " > " : " < ") + json(0.5 * most).dump();
}

double full_of(const HeatMap& map) {
  double most = map.full;
  for (const HeatCell& cell : map.cells)
    if (map.full <= 0) most = std::max(most, cell.value);
  return most > 0 ? most : 1;
}

json column_channel(const HeatMap& map, const DataTable& table) {
  json x = channel(table, map.column.name, "ordinal");
  x["axis"] = map.columns.empty() ? bytes_axis() : json{{"orient", "top"}};
  x["axis"]["labelAngle"] = 0;
  x["axis"]["labelOverlap"] = false;  // every column is labelled: least_width makes room for it
  x["axis"]["domain"] = x["axis"]["ticks"] = x["axis"]["grid"] = false;
  if (!map.columns.empty()) x["sort"] = map.columns;
  x["scale"] = {{"paddingInner", kCellGap}};
  return x;
}

json row_channel(const HeatMap& map, const DataTable& table) {
  json y = channel(table, map.row.name, "nominal");
  y["axis"] = {{"labelLimit", 240}, {"domain", false}, {"ticks", false}, {"grid", false}};
  y["sort"] = map.rows;
  y["scale"] = {{"paddingInner", kCellGap}};
  return y;
}

// Cell colours, and the text colours on them, are the same on light and dark pages.
json colour_channel(const HeatMap& map, const DataTable& table, double most) {
  json colour = channel(table, map.value.name, "quantitative");
  colour["scale"] = {{"scheme", map.high_is_dark ? "blues" : "teals"}, {"domain", {0, most}}, {"clamp", true}};
  if (!map.high_is_dark) colour["scale"]["reverse"] = true;
  colour["legend"] = {{"gradientLength", 160}, {"labelExpr", "format(datum.value, ',.3~r')"}};
  return colour;
}

json outline_channel(const HeatMap& map, const DataTable& table) {
  json outline = channel(table, "judgement", "nominal");
  outline["scale"] = {{"domain", {map.outlined, map.plain}}, {"range", {"#e8590c", "transparent"}}};
  outline["legend"] = {{"values", {map.outlined}},
                       {"symbolType", "square"},
                       {"symbolFillColor", "transparent"},
                       {"symbolStrokeWidth", 3}};
  return outline;
}

/// Width for the row names and for cells that hold their text and the column's name.
int least_width(const HeatMap& map, const DataTable& table) {
  constexpr size_t kLetter = 7, kRoom = 14, kSizeLetters = 7;  // pixels; "512 KiB"
  constexpr size_t kAxis = 40, kMostLetters = 34;              // the title of the rows; the limit of their labels
  size_t cell = map.columns.empty() ? kSizeLetters : 0, row = 0;
  for (const std::string& name : map.columns) cell = std::max(cell, name.size());
  for (const HeatCell& c : map.cells) cell = std::max(cell, c.words.size());
  for (const std::string& name : map.rows) row = std::max(row, std::min(name.size(), kMostLetters));
  std::set<TableValue> columns;
  for (const std::vector<TableValue>& values : table.rows) columns.insert(values[1]);
  return static_cast<int>(kAxis + row * kLetter + columns.size() * (cell * kLetter + kRoom));
}

json spec_of(const HeatMap& map, const DataTable& table) {
  constexpr int kRowHeight = 40;
  const double most = full_of(map);
  const json x = column_channel(map, table), y = row_channel(map, table);
  json cells = {{"x", x}, {"y", y}, {"color", colour_channel(map, table, most)}, {"tooltip", tooltip(table)}};
  if (!map.judgement_title.empty()) cells["stroke"] = outline_channel(map, table);
  const json words_colour = {{"condition", {{"test", dark_test(map, most)}, {"value", "#f8fafc"}}},
                             {"value", "#16202a"}};
  json spec = start_spec(static_cast<int>(map.rows.size()) * kRowHeight);
  spec["layer"] = {
      {{"mark", {{"type", "rect"}, {"strokeWidth", 3}, {"cornerRadius", 3}}}, {"encoding", cells}},
      {{"mark", {{"type", "text"}, {"fontSize", 12}}},
       {"encoding",
        {{"x", x}, {"y", y}, {"text", {{"field", "words"}, {"type", "nominal"}}}, {"color", words_colour}}}}};
  return spec;
}

}  // namespace

std::optional<Chart> heat_map_chart(const HeatMap& map) {
  if (map.cells.empty()) return std::nullopt;
  Chart chart;
  chart.id = map.id, chart.title = map.title, chart.summary = map.summary;
  chart.table = table_of(map);
  chart.spec = spec_of(map, chart.table).dump();
  chart.least_width = least_width(map, chart.table);
  return chart;
}

}  // namespace amdahl

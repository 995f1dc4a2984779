#include "chart/spec_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "chart/document.h"

namespace amdahl {

using nlohmann::json;

namespace {

bool all_measured(const DataTable& table) {
  const std::vector<std::string> origins = words_of_column(table, "origin");
  return std::all_of(origins.begin(), origins.end(),
                     [](const std::string& word) { return word == origin_words(Origin::measured); });
}

/// The column "origin" on a channel with a value a word; no legend where all is measured.
json origin_channel(const DataTable& table, const json& range) {
  json encoding = channel(table, "origin", "ordinal");
  encoding["scale"] = {{"domain", {"measured", "emulated", "modelled"}}, {"range", range}};
  if (all_measured(table))
    encoding["legend"] = nullptr;
  else
    encoding["legend"] = {{"values", words_of_column(table, "origin")}};
  return encoding;
}

}  // namespace

json start_spec(int height_px) {
  return {{"data", {{"name", "table"}}}, {"width", kPictureWidth}, {"height", height_px}};
}

size_t column_index(const DataTable& table, std::string_view column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].name == column) return i;
  throw Error(Cause::internal, fmt::format("a chart draws the column '{}', which its table lacks", column),
              "report this as a defect");
}

json channel(const DataTable& table, std::string_view column, const char* type) {
  return {{"field", column}, {"type", type}, {"title", table.columns[column_index(table, column)].title}};
}

json tooltip(const DataTable& table) {
  json list = json::array();
  for (const TableColumn& column : table.columns) list.push_back({{"field", column.name}, {"title", column.title}});
  return list;
}

json only_rows(const char* column, const std::string& value) {
  return {{"filter", {{"field", column}, {"equal", value}}}};
}

json bytes_axis() {
  return {{"labelExpr",
           "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~g') + ' GiB' : datum.value >= 1048576 ? "
           "format(datum.value / 1048576, '~g') + ' MiB' : datum.value >= 1024 ? format(datum.value / 1024, '~g') + ' "
           "KiB' : format(datum.value, '~g') + ' B'"},
          {"labelOverlap", "greedy"},
          {"labelSeparation", 6}};
}

json number_axis() { return {{"labelExpr", kNumberLabel}, {"labelOverlap", "greedy"}, {"labelSeparation", 6}}; }

json origin_dash(const DataTable& table) { return origin_channel(table, {{1, 0}, {8, 4}, {3, 3}}); }

json origin_opacity(const DataTable& table) { return origin_channel(table, {1.0, 0.65, 0.4}); }

std::vector<std::string> words_of_column(const DataTable& table, std::string_view column) {
  const size_t index = column_index(table, column);
  std::vector<std::string> words;
  for (const std::vector<TableValue>& row : table.rows)
    if (const auto* word = std::get_if<std::string>(&row[index]))
      if (std::find(words.begin(), words.end(), *word) == words.end()) words.push_back(*word);
  return words;
}

}  // namespace amdahl

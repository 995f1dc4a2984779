#include "chart/spec_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"
#include "chart/document.h"

namespace amdahl {

using nlohmann::json;

namespace {

/// Encodes the column "origin" with one value per origin; without a legend if all rows are measured.
json origin_channel(const DataTable& table, const json& range) {
  json encoding = channel(table, "origin", "ordinal");
  encoding["scale"] = {{"domain", {"measured", "emulated", "modelled"}}, {"range", range}};
  encoding["title"] = "Origin";
  const std::vector<std::string> origins = words_of_column(table, "origin");
  if (origins.size() < 2)  // the chart's badge shows the origin
    encoding["legend"] = nullptr;
  else
    encoding["legend"] = {{"values", origins}};
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

json step_part_scale() {
  json names = json::array();
  for (const StepPart& part : step_parts()) names.push_back(part.name);
  return {{"domain", names}, {"range", "step_part"}};
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

void include_positive(Interval& extent, const DataTable& table, size_t column) {
  for (const std::vector<TableValue>& row : table.rows) {
    const auto* real = std::get_if<double>(&row[column]);
    const auto* whole = std::get_if<int64_t>(&row[column]);
    const double value = real ? *real : whole ? static_cast<double>(*whole) : 0;
    if (value > 0 && std::isfinite(value)) extent = {std::min(extent.low, value), std::max(extent.high, value)};
  }
}

std::vector<double> log_ticks(double low, double high) {
  constexpr double kDecadesOfFineTicks = 2.3, kMostDecades = 8, kSlack = 1 + 1e-9;
  const double decades = std::log10(high / low);
  const int stride = static_cast<int>(decades / kMostDecades) + 1;
  const auto ticks_at = [&](const std::vector<double>& steps) {
    std::vector<double> ticks;
    for (int power = static_cast<int>(std::floor(std::log10(low))); std::pow(10, power) <= high * kSlack;
         power += stride)
      for (const double step : steps)
        if (const double tick = step * std::pow(10, power); tick * kSlack >= low && tick <= high * kSlack)
          ticks.push_back(tick);
    return ticks;
  };
  std::vector<double> ticks = ticks_at({1});
  if (decades <= kDecadesOfFineTicks || ticks.size() < 3) ticks = ticks_at({1, 2, 5});
  if (ticks.size() >= 3) return ticks;
  ticks.clear();
  const double span = (high - low) / 4, decade = std::pow(10, std::floor(std::log10(span)));
  const double step = decade * (span < 2 * decade ? 1 : span < 5 * decade ? 2 : 5);
  for (double number = std::ceil(low / step); number * step <= high; ++number) ticks.push_back(number * step);
  return ticks;
}

void set_log_scale(json& encoding, Interval extent) {
  constexpr double kBeyond = 0.06, kLeast = 1.1;  // kBeyond: share of the range; kLeast: a factor
  if (!(extent.high >= extent.low) || !(extent.low > 0)) return;
  const double factor = std::max(kLeast, std::pow(extent.high / extent.low, kBeyond));
  const double low = extent.low / factor, high = extent.high * factor;
  encoding["scale"] = {{"type", "log"}, {"nice", false}, {"domain", {low, high}}};
  encoding["axis"]["values"] = log_ticks(low, high);
}

double round_above(double most) {
  if (!(most > 0) || !std::isfinite(most)) return 1;
  const double decade = std::pow(10, std::floor(std::log10(most)));
  for (const double step : {1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0})
    if (step * decade >= most) return step * decade;
  return 10 * decade;
}

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

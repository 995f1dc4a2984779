#include "report/export/export.h"

#include <fmt/format.h>

#include <set>

#include "report/common/account_text.h"

namespace amdahl {
namespace {

// A text cell, protected against being evaluated as a formula by spreadsheets.
std::string text_cell(std::string_view text) {
  constexpr std::string_view kDangerous = "=+-@\t\r\n'";
  std::string cell(text);
  if (!cell.empty() && kDangerous.find(cell.front()) != std::string_view::npos) cell.insert(0, 1, '\'');
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const bool blank_end = !cell.empty() && (is_blank(cell.front()) || is_blank(cell.back()));  // readers may trim
  if (!blank_end && cell.find_first_of("\",\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string axis_cell(const Record& record, const std::string& axis) {
  const auto found = record.axes.find(axis);
  if (found == record.axes.end()) return {};
  if (const auto* text = std::get_if<std::string>(&found->second)) return text_cell(*text);
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
          return std::string();
        else
          return fmt::format("{}", value);
      },
      found->second);
}

std::string status_name(const Status& status) {
  constexpr std::string_view kNames[] = {"ok", "waived", "failed"};
  return std::string(kNames[static_cast<size_t>(status.kind)]);
}

std::string origin_name_of(Origin origin) {
  constexpr std::string_view kNames[] = {"measured", "emulated", "modelled"};
  return std::string(kNames[static_cast<size_t>(origin)]);
}

}  // namespace

std::string records_csv(const std::vector<Record>& records) {
  std::set<std::string> axes;
  for (const Record& record : records)
    for (const auto& [axis, value] : record.axes) axes.insert(axis);

  std::string csv = "record,kind,status,reason,origin";
  for (const std::string& axis : axes) csv += "," + text_cell("axis." + axis);
  csv += ",series,unit,sample,value,host,device_kind,start_time,seed,tool_version,commit\r\n";
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    const Provenance& p = record.provenance;
    std::string before = fmt::format("{},{},{},{},{}", i, text_cell(record.kind), status_name(record.status),
                                     text_cell(record.status.reason), origin_name_of(record.origin));
    for (const std::string& axis : axes) before += "," + axis_cell(record, axis);
    const std::string after =
        fmt::format(",{},{},{},{},{},{}\r\n", text_cell(p.host), text_cell(p.device_kind), text_cell(p.start_time),
                    p.seed, text_cell(p.tool_version), text_cell(p.commit));
    bool any = false;
    std::vector<Series> all = record.series;
    if (auto ratio = account_ratio_series(record)) all.push_back(std::move(*ratio));
    for (const Series& series : all) {
      for (size_t sample = 0; sample < series.samples.size(); ++sample) {
        csv += fmt::format("{},{},{},{},{}{}", before, text_cell(series.name), text_cell(series.unit), sample,
                           series.samples[sample], after);
        any = true;
      }
    }
    if (!any) csv += fmt::format("{},,,,{}", before, after);
  }
  return csv;
}

}  // namespace amdahl

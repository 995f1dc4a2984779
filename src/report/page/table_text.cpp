#include "report/page/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "amdahl/error.h"
#include "base/number_text.h"

namespace amdahl {
namespace {

constexpr const char* kMissing = "n/a";

/// "1,234", "+1.5 %", "2.5 GB", "0 / 5", missing; no "2 threads, CPU".
bool begins_as_number(const std::string& cell) {
  if (cell.empty() || cell == "-" || cell == kMissing) return true;
  if (cell.find_first_of("0123456789") > 1 || cell.find_first_not_of("0123456789+-") == 0) return false;
  size_t letters = 0;  // of the present word
  for (const char c : cell) {
    letters = std::isalpha(static_cast<unsigned char>(c)) ? letters + 1 : 0;
    if (letters > 2) return false;
  }
  return true;
}

}  // namespace

std::string table_text(const TableValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return with_thousands(*whole);
  constexpr int kDigits = 4;  // ratios near 1 differ in the third decimal place
  if (const auto* number = std::get_if<double>(&value); number && std::isfinite(*number))
    return format_number(*number, kDigits);
  return kMissing;
}

TextTable text_table(const DataTable& table) {
  const auto& columns = table.columns;
  const auto is_interval = [&](size_t i) {
    return i > 0 && i + 1 < columns.size() && columns[i].title == "from" && columns[i + 1].title == "to";
  };
  TextTable text;
  text.rows.resize(table.rows.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool bounds = is_interval(i);
    if (bounds)
      text.head.back() += " [95 % CI]";
    else
      text.head.push_back(columns[i].title);
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const std::vector<TableValue>& row = table.rows[r];
      if (!bounds) {
        text.rows[r].push_back(table_text(row[i]));
      } else if (std::holds_alternative<double>(row[i - 1]) || std::holds_alternative<int64_t>(row[i - 1])) {
        const std::string low = table_text(row[i]), high = table_text(row[i + 1]);
        text.rows[r].back() += low == kMissing ? fmt::format(" [{}]", low) : fmt::format(" [{}, {}]", low, high);
      }
    }
    if (bounds) ++i;
  }
  for (size_t i = 0; i < text.head.size(); ++i)
    text.numbers.push_back(!text.rows.empty() &&
                           std::all_of(text.rows.begin(), text.rows.end(),
                                       [&](const std::vector<std::string>& row) { return begins_as_number(row[i]); }));
  return text;
}

std::string take_common(TextTable& table) {
  std::string common;
  for (size_t i = 0; !table.rows.empty() && i < table.head.size() && table.head.size() > 1;) {
    const std::string value = table.rows.front()[i];
    const bool missing = value.empty() || value == "-" || value == kMissing;
    if ((table.rows.size() == 1 && !missing) ||
        !std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[i] == value; })) {
      ++i;
      continue;
    }
    if (!missing) common += fmt::format("{}{}: {}", common.empty() ? "" : "; ", table.head[i], value);
    const auto at = static_cast<std::ptrdiff_t>(i);
    table.head.erase(table.head.begin() + at);
    table.numbers.erase(table.numbers.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
  return common;
}

}  // namespace amdahl

#include "train/csv_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "amdahl/units.h"

namespace amdahl {
namespace {

constexpr double kMostlyNumeric = 0.9;  // at or above this share of numbers, a word is a typo, not a category
constexpr size_t kMaxCategories = 1000;

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  return a.size() == lower.size() && std::equal(a.begin(), a.end(), lower.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) == y;
         });
}

/// "1,5" and "-12,25": a number written with a decimal comma.
bool has_decimal_comma(std::string_view cell) {
  const size_t comma = cell.find(',');
  if (comma == std::string_view::npos || comma + 1 == cell.size()) return false;
  std::string point(cell);
  point[comma] = '.';
  double value = 0;
  return classify_cell(point, value) == CellKind::number;
}

std::vector<std::string> names_of(const std::vector<CsvColumn>& columns) {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) names.push_back(column.name);
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

/// Header detection for Header::automatic: no field of the first line is a number, and at least one is a word.
bool looks_like_header(const CsvRow& row) {
  bool word = false;
  for (const std::string_view field : row.fields) {
    double value = 0;
    const CellKind kind = classify_cell(field, value);
    if (kind == CellKind::number) return false;
    word = word || kind == CellKind::word;
  }
  return word;
}

void name_columns(CsvTable& table, CsvOptions::Header header) {
  CsvReader reader(table.text, table.delimiter);
  CsvRow row;
  if (!reader.next(row))
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: the file is empty", table.text.path), "a file with rows");
  table.has_header =
      header == CsvOptions::Header::automatic ? looks_like_header(row) : header == CsvOptions::Header::present;
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < row.fields.size(); ++i) {
    CsvColumn& column = table.columns.emplace_back();
    column.index = i;
    column.name = table.has_header ? std::string(row.fields[i]) : std::string();
    if (column.name.empty()) column.name = fmt::format("c{}", i);
    if (const auto [other, is_new] = places.emplace(column.name, i); !is_new)
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: columns {} and {} are both named '{}'", table.text.path, row.line,
                              other->second + 1, i + 1, column.name),
                  "give every column a name of its own");
  }
}

void assign_role(CsvTable& table, const std::vector<std::string>& names, CsvColumn::Role role, const char* what) {
  for (const std::string& name : names) {
    const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                    [&](const CsvColumn& column) { return column.name == name; });
    if (found == table.columns.end()) {
      const std::vector<std::string> known = names_of(table.columns);
      const std::string near = nearest_name(name, known);
      throw Error(Cause::usage, fmt::format("{} has no column '{}' (given as {})", table.text.path, name, what),
                  fmt::format("{}one of: {}{}", near.empty() ? "" : fmt::format("'{}'? or ", near), list_of(known),
                              table.has_header ? "" : " (the file has no header line)"));
    }
    if (found->role != CsvColumn::Role::feature)
      throw Error(Cause::usage, fmt::format("column '{}' is named twice among targets and ignored columns", name),
                  "name it once");
    found->role = role;
  }
}

void assign_roles(CsvTable& table, const CsvOptions& options) {
  if (options.target_columns.empty())
    throw Error(Cause::usage, fmt::format("{}: no target column was named", table.text.path),
                fmt::format("name one of: {}", list_of(names_of(table.columns))));
  assign_role(table, options.target_columns, CsvColumn::Role::target, "a target");
  assign_role(table, options.ignore_columns, CsvColumn::Role::ignored, "a column to ignore");
  if (std::none_of(table.columns.begin(), table.columns.end(),
                   [](const CsvColumn& column) { return column.role == CsvColumn::Role::feature; }))
    throw Error(Cause::usage, fmt::format("{}: no column is left as a feature", table.text.path),
                "a file with at least one column besides the targets");
}

void count(CellTally& tally, int64_t line, std::string_view text) {
  if (tally.count++ != 0) return;
  tally.first_line = line;
  tally.first_text = text;
}

/// Tallies every field, including those of rows that are dropped later.
void tally_fields(CsvTable& table) {
  CsvReader reader(table.text, table.delimiter);
  CsvRow row;
  if (table.has_header) reader.next(row);
  while (reader.next(row)) {
    ++table.num_rows;
    if (row.fields.size() != table.columns.size())
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: {} fields where the first line has {}{}", table.text.path, row.line,
                              row.fields.size(), table.columns.size(),
                              row.fields.size() < table.columns.size()
                                  ? fmt::format("; column '{}' is missing", table.columns[row.fields.size()].name)
                                  : ""),
                  "quote fields that contain the delimiter, or name the right delimiter");
    for (CsvColumn& column : table.columns) {
      const std::string_view cell = row.fields[column.index];
      double value = 0;
      switch (classify_cell(cell, value)) {
        case CellKind::missing:
          count(column.missing, row.line, cell);
          break;
        case CellKind::number:
          count(column.numbers, row.line, cell);
          break;
        case CellKind::non_finite:
          count(column.non_finite, row.line, cell);
          break;
        case CellKind::word:
          count(column.words, row.line, cell);
          if (has_decimal_comma(cell)) count(column.decimal_commas, row.line, cell);
          break;
      }
    }
  }
  if (table.num_rows == 0)
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: a header but no rows", table.text.path),
                "a file with at least one row of data");
}

/// Decides whether the column is numeric or categorical; throws when its fields are inconsistent.
void decide_type(CsvColumn& column, const std::string& path, CsvOptions::Missing missing) {
  const auto refuse = [&](Cause cause, const CellTally& at, const std::string& what, const std::string& remedy) {
    refuse_cell(cause, path, at.first_line, column, what, remedy);
  };
  const int64_t numeric = column.numbers.count + column.non_finite.count;
  const int64_t filled = numeric + column.words.count;
  if (filled == 0) refuse(Cause::data_corrupt, column.missing, "no row has a value", "`ignored` this column");
  column.categorical = column.words.count > 0;
  if (column.categorical && static_cast<double>(numeric) >= kMostlyNumeric * static_cast<double>(filled))
    refuse(Cause::data_corrupt, column.words,
           fmt::format("'{}' is not a number, while {} of {} values are", column.words.first_text, numeric, filled),
           "correct the value, or leave it empty and use `missing=drop` or `missing=mean`");
  if (static_cast<double>(column.decimal_commas.count) >= kMostlyNumeric * static_cast<double>(filled))
    refuse(Cause::data_corrupt, column.decimal_commas,
           fmt::format("'{}' is a number with a comma", column.decimal_commas.first_text),
           "write numbers without separators and decimals with a point");
  if (!column.categorical && column.non_finite.count > 0)
    refuse(Cause::non_finite, column.non_finite,
           fmt::format("'{}' is not a finite 32-bit number", column.non_finite.first_text),
           "correct the value, or leave it empty and use `missing=drop` or `missing=mean`");
  if (column.missing.count == 0) return;
  const bool target = column.role == CsvColumn::Role::target;
  if (missing == CsvOptions::Missing::refuse || (target && missing == CsvOptions::Missing::mean))
    refuse(Cause::data_corrupt, column.missing,
           fmt::format("a missing value ({} in this column{})", with_thousands(column.missing.count),
                       target ? ", a target" : ""),
           target ? "`missing=drop`" : "`missing=drop` or `missing=mean`");
}

void collect_categories(CsvTable& table) {
  std::vector<CsvColumn*> categorical;
  for (CsvColumn& column : table.columns)
    if (column.categorical) categorical.push_back(&column);
  if (categorical.empty()) return;
  size_t words = 0;  // each becomes a feature
  table.for_each_row([&](const CsvRow& row) {
    for (CsvColumn* column : categorical) {
      const std::string_view cell = row.fields[column->index];
      double value = 0;
      if (classify_cell(cell, value) == CellKind::missing || column->categories.find(cell) != column->categories.end())
        continue;
      if (column->categories.size() == kMaxCategories)
        refuse_cell(Cause::data_corrupt, table.text.path, row.line, *column,
                    fmt::format("more than {} different words", kMaxCategories),
                    "`ignored` this column (an identifier?), or merge rare values");
      column->categories.emplace(cell, 0);
      if (++words > kMostCsvFields)
        refuse_cell(Cause::data_corrupt, table.text.path, row.line, *column,
                    fmt::format("more than {} different words in all columns, each of which becomes a feature",
                                with_thousands(static_cast<int64_t>(kMostCsvFields))),
                    "`ignored` columns of identifiers, or merge rare values");
    }
  });
  for (CsvColumn* column : categorical) {
    int position = 0;
    for (auto& [text, index] : column->categories) index = position++;
  }
}

}  // namespace

void refuse_cell(Cause cause, const std::string& path, int64_t line, const CsvColumn& column, const std::string& what,
                 const std::string& remedy) {
  throw Error(cause, fmt::format("{}, line {}, column {} '{}': {}", path, line, column.index + 1, column.name, what),
              remedy);
}

CellKind classify_cell(std::string_view cell, double& value) {
  static constexpr std::array<std::string_view, 5> kMissing{"", "na", "n/a", "null", "?"};
  if (cell.size() <= 4 && std::any_of(kMissing.begin(), kMissing.end(),
                                      [&](std::string_view word) { return equals_ignoring_case(cell, word); }))
    return CellKind::missing;
  const char* begin = cell.data();
  const char* end = begin + cell.size();
  if (*begin == '+' && cell.size() > 1 && begin[1] != '-') ++begin;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (stop != end || error == std::errc::invalid_argument) return CellKind::word;
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(begin, end).c_str(), nullptr);
  if (!std::isfinite(value) || std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()))
    return CellKind::non_finite;
  return CellKind::number;
}

bool CsvTable::is_complete(const CsvRow& row) const {
  return std::none_of(columns.begin(), columns.end(), [&](const CsvColumn& column) {
    double value = 0;
    return column.role != CsvColumn::Role::ignored && column.missing.count > 0 &&
           classify_cell(row.fields[column.index], value) == CellKind::missing;
  });
}

CsvTable scan_csv(const CsvOptions& options) {
  CsvTable table;
  table.text = read_csv_text(options.path);
  table.delimiter = options.delimiter != 0 ? options.delimiter : detect_delimiter(table.text);
  table.drop_incomplete = options.missing == CsvOptions::Missing::drop_row;
  name_columns(table, options.header);
  assign_roles(table, options);
  tally_fields(table);
  for (CsvColumn& column : table.columns)
    if (column.role != CsvColumn::Role::ignored) decide_type(column, table.text.path, options.missing);
  collect_categories(table);
  return table;
}

}  // namespace amdahl

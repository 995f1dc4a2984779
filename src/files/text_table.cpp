#include "files/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "amdahl/error.h"
#include "files/text_tokens.h"

namespace amdahl {
namespace {

constexpr double kMostlyNumeric = 0.9;  // at or above this share of numbers, a word is a typo, not a category

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  return a.size() == lower.size() && std::equal(a.begin(), a.end(), lower.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) == y;
         });
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

CellKind kind_of_number(double value) {
  const bool finite = std::isfinite(value) && std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
  return finite ? CellKind::number : CellKind::non_finite;
}

void keep_some(std::vector<std::string>& some, std::string_view text, size_t most) {
  if (some.size() < most && std::find(some.begin(), some.end(), text) == some.end()) some.emplace_back(text);
}

void tally(const MissingMarkers& markers, FileColumn& column, int64_t line, std::string_view field) {
  double value = 0;
  if (markers.contains(field)) return column.missing.add(line, field);
  const bool plain = parse_number(field, value);
  if (!plain) {
    const SpelledNumber number = spell_number(field);
    if (!number.readable()) {
      column.words.add(line, field);
      return keep_some(column.some_words, field, FileColumn::kFewWords + 1);
    }
    value = number.with_point ? number.point : number.comma;
    column.spelling.add_spelled(line, field, number);
  } else {
    column.spelling.add_plain(line, field);
  }
  keep_some(column.some_numbers, field, FileColumn::kManyNumbers);
  (kind_of_number(value) == CellKind::number ? column.numbers : column.non_finite).add(line, field);
}

/// Words among the numbers of a column that mark missing values: marks without a letter, one word beside several
/// different numbers that are the most, or few words beside many different numbers.
bool are_markers(const FileColumn& column) {
  if (column.numbers.count == 0 || column.some_words.size() > FileColumn::kFewWords) return false;
  const bool marks = std::all_of(column.some_words.begin(), column.some_words.end(), [](const std::string& word) {
    return std::none_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c); });
  });
  constexpr size_t kSeveralNumbers = 5;
  const bool one_word = column.some_words.size() == 1 && column.some_numbers.size() >= kSeveralNumbers &&
                        column.numbers.count > column.words.count;
  return marks || one_word || column.some_numbers.size() >= FileColumn::kManyNumbers;
}

}  // namespace

MissingMarkers::MissingMarkers(std::vector<std::string> more) : more_(std::move(more)) {
  for (const std::string& marker : more_)
    if (double value = 0; parse_number(marker, value)) numbers_.push_back(value);
}

bool MissingMarkers::contains(std::string_view field) const {
  static constexpr std::array<std::string_view, 9> kExact{"None",    "<NA>",   "#N/A",     "#N/A N/A", "#NA",
                                                          "-1.#IND", "1.#IND", "-1.#QNAN", "1.#QNAN"};
  static constexpr std::array<std::string_view, 6> kAnyCase{"na", "n/a", "null", "?", "nan", "-nan"};
  field = without_blanks(field);
  if (field.empty()) return true;
  if (std::find(more_.begin(), more_.end(), field) != more_.end()) return true;
  if (double value = 0; !numbers_.empty() && parse_number(field, value) &&
                        std::find(numbers_.begin(), numbers_.end(), value) != numbers_.end())
    return true;
  const char first = field[0];
  if ((first >= '0' && first <= '9' && first != '1') || field.size() > 8) return false;
  return std::find(kExact.begin(), kExact.end(), field) != kExact.end() ||
         std::any_of(kAnyCase.begin(), kAnyCase.end(),
                     [&](std::string_view word) { return equals_ignoring_case(field, word); });
}

CellKind FileTable::read(const FileColumn& column, std::string_view field, double& value) const {
  if (markers.contains(field)) return CellKind::missing;
  if (column.spelling.spelled().count > 0)
    if (const SpelledNumber number = spell_number(field); number.readable()) {
      const bool comma = column.spelling.has_decimal_comma();
      if (comma ? !number.with_comma : !number.with_point) return CellKind::word;
      value = comma ? number.comma : number.point;
      return kind_of_number(value);
    }
  return parse_number(field, value) ? kind_of_number(value) : CellKind::word;
}

void tally_fields(FileTable& table) {
  table.for_each_row([&](const CsvRow& row) {
    ++table.num_rows;
    if (row.fields.size() != table.columns.size())
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: {} fields where the first line has {}{}", table.text.path, row.line,
                              row.fields.size(), table.columns.size(),
                              row.fields.size() < table.columns.size()
                                  ? fmt::format("; column '{}' is missing", table.columns[row.fields.size()].name)
                                  : ""),
                  row.fields[0].starts_with('#')
                      ? "no comments between the rows"
                      : "quote fields that contain the delimiter, or name the right delimiter");
    for (FileColumn& column : table.columns) tally(table.markers, column, row.line, row.fields[column.index]);
  });
  if (table.num_rows == 0)
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: a header but no rows", table.text.path),
                "a file with at least one row of data");
}

ColumnKind decide_kind(FileTable& table, const FileColumn& column) {
  const std::string& path = table.text.path;
  const int64_t numeric = column.numbers.count + column.non_finite.count, filled = numeric + column.words.count;
  if (filled == 0) return ColumnKind::nothing;
  const auto share = static_cast<double>(numeric) / static_cast<double>(filled);
  if (column.words.count > 0 && share < kMostlyNumeric && !are_markers(column)) {
    if (numeric > 0)
      table.notes.push_back(
          fmt::format("{}, column {} '{}': '{}' in line {} is a word, so the {} numbers of {} values "
                      "are words, too",
                      path, column.index + 1, column.name, printable(column.words.first_text, 40),
                      column.words.first_line, with_thousands(numeric), with_thousands(filled)));
    return ColumnKind::words;
  }
  if (column.words.count > 0)
    refuse_cell(Cause::data_corrupt, path, column.words.first_line, column,
                fmt::format("'{}' is not a number, while {} of {} values are", printable(column.words.first_text, 40),
                            numeric, filled),
                "correct the value; or `missing_values` with what marks a missing one; or words alone, if it is a "
                "category");
  if (const ColumnSpelling::Conflict conflict = column.spelling.conflict(); conflict.at)
    refuse_cell(Cause::data_corrupt, path, conflict.at->first_line, column, conflict.what,
                "write all numbers of the column alike, with a decimal point and no other marks");
  if (const std::string note = column.spelling.note(); !note.empty())
    table.notes.push_back(fmt::format("{}, column {} '{}': {}", path, column.index + 1, column.name, note));
  return ColumnKind::numbers;
}

void refuse_cell(Cause cause, const std::string& path, int64_t line, const FileColumn& column, const std::string& what,
                 const std::string& remedy) {
  throw Error(cause, fmt::format("{}, line {}, column {} '{}': {}", path, line, column.index + 1, column.name, what),
              remedy);
}

}  // namespace amdahl

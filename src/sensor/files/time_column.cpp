#include "sensor/files/time_column.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "amdahl/error.h"

namespace amdahl {
namespace {

using Words = std::vector<std::string>;

/// "header.stampSec [ns]" as header, stamp, sec, ns.
Words words_of(std::string_view name) {
  Words words;
  bool fresh = true, was_lower = false;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (!std::isalnum(u) || (std::isupper(u) && was_lower)) fresh = true;
    was_lower = std::islower(u);
    if (!std::isalnum(u)) continue;
    if (fresh) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(u));
    fresh = false;
  }
  return words;
}

template <size_t n>
bool is_one_of(const std::string& word, const std::string_view (&known)[n]) {
  return std::find(std::begin(known), std::end(known), word) != std::end(known);
}

bool is_unit(const std::string& word) {
  static constexpr std::string_view kUnits[] = {
      "s",        "sec",         "secs",         "second",  "seconds", "ms",    "msec",  "millis", "milliseconds",
      "us",       "usec",        "microseconds", "micros",  "ns",      "nsec",  "nsecs", "nanos",  "nanosec",
      "nanosecs", "nanoseconds", "min",          "minutes", "h",       "hours", "days"};
  return is_one_of(word, kUnits);
}

/// How surely a name is that of the time.
enum class Sureness { none, word, name };

Sureness sureness_of(const std::string& name) {
  static constexpr std::string_view kNames[] = {"time",       "t",     "timestamp", "stamp",      "ts",
                                                "timestamps", "times", "datetime",  "time stamp", "date time"};
  static constexpr std::string_view kWords[] = {"time", "timestamp", "stamp", "timestamps", "times", "epoch"};
  Words words = words_of(name);
  while (words.size() > 1 && is_unit(words.back())) words.pop_back();
  if (is_one_of(fmt::format("{}", fmt::join(words, " ")), kNames)) return Sureness::name;
  const bool unit_alone = words.size() == 1 && words[0].size() > 1 && is_unit(words[0]);
  const bool word = std::any_of(words.begin(), words.end(), [](const std::string& w) {
    return is_one_of(w, kWords) || w.ends_with("time") || w.ends_with("stamp");
  });
  return word || unit_alone ? Sureness::word : Sureness::none;
}

/// The columns of numbers that rise and never fall within a trajectory.
std::vector<bool> rising_columns(const FileTable& table, const std::vector<ColumnKind>& kinds, size_t batch) {
  const size_t width = table.columns.size();
  std::vector<bool> good(width), rose(width, false);
  for (size_t c = 0; c < width; ++c) good[c] = kinds[c] == ColumnKind::numbers && c != batch;
  std::map<std::string, std::vector<double>, std::less<>> last;  // by trajectory
  table.for_each_row([&](const CsvRow& row) {
    const std::string_view name = batch == SIZE_MAX ? std::string_view() : row.fields[batch];
    auto found = last.find(name);
    if (found == last.end())
      found = last.emplace(name, std::vector<double>(width, -std::numeric_limits<double>::infinity())).first;
    for (size_t c = 0; c < width; ++c) {
      if (!good[c]) continue;
      double value = 0;
      const CellKind kind = table.read(table.columns[c], row.fields[c], value);
      double& before = found->second[c];
      good[c] = (kind == CellKind::number || kind == CellKind::non_finite) && value >= before;
      rose[c] = rose[c] || (value > before && before > -std::numeric_limits<double>::infinity());
      before = value;
    }
  });
  for (size_t c = 0; c < width; ++c) good[c] = good[c] && (rose[c] || table.num_rows == 1);
  return good;
}

std::string list_of(const FileTable& table, const std::vector<size_t>& columns) {
  Words names;
  for (const size_t c : columns) names.push_back(printable(table.columns[c].name, 40));
  return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void refuse_unsure(const FileTable& table, const std::vector<size_t>& candidates,
                                const std::vector<ColumnKind>& kinds) {
  std::vector<size_t> choices = candidates;
  for (size_t c = 0; candidates.empty() && c < kinds.size(); ++c)
    if (kinds[c] == ColumnKind::numbers) choices.push_back(c);
  throw Error(Cause::usage,
              candidates.empty() ? fmt::format("{}: no column is named like a time or only rises", table.text.path)
                                 : fmt::format("{}: {} columns can be the time: {}", table.text.path, candidates.size(),
                                               list_of(table, candidates)),
              fmt::format("`time_column` with one of: {}", list_of(table, choices)));
}

TimeColumn guess(const FileTable& table, const std::vector<ColumnKind>& kinds, size_t batch) {
  std::vector<size_t> named, with_word, rising;
  for (const FileColumn& column : table.columns)
    if (column.index != batch && sureness_of(column.name) == Sureness::name) named.push_back(column.index);
  if (named.size() == 1) return {named[0], ""};
  if (named.size() > 1) refuse_unsure(table, named, kinds);
  const std::vector<bool> good = rising_columns(table, kinds, batch);
  for (const FileColumn& column : table.columns) {
    if (!good[column.index]) continue;
    rising.push_back(column.index);
    if (sureness_of(column.name) == Sureness::word) with_word.push_back(column.index);
  }
  const std::vector<size_t>& candidates = with_word.empty() ? rising : with_word;
  if (candidates.size() != 1) refuse_unsure(table, candidates, kinds);
  return {candidates[0], fmt::format("{}: column '{}' is taken as the time: it is the only one {}", table.text.path,
                                     printable(table.columns[candidates[0]].name, 40),
                                     with_word.empty() ? "that only rises" : "with such a name that only rises")};
}

}  // namespace

TimeColumn find_time_column(const FileTable& table, const std::vector<ColumnKind>& kinds, size_t batch,
                            const std::string& wanted) {
  TimeColumn time;
  if (!wanted.empty()) {
    const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                    [&](const FileColumn& column) { return column.name == wanted; });
    Words names;
    for (const FileColumn& column : table.columns) names.push_back(column.name);
    if (found == table.columns.end())
      throw Error(Cause::usage, fmt::format("{} has no column '{}' (given as `time_column`)", table.text.path, wanted),
                  choices_hint(wanted, names));
    time.index = found->index;
  } else if (table.has_header) {
    time = guess(table, kinds, batch);
  }
  const FileColumn& column = table.columns[time.index];
  if (kinds[time.index] == ColumnKind::words)
    refuse_cell(Cause::data_corrupt, table.text.path, column.words.first_line, column,
                fmt::format("'{}' is no time", printable(column.words.first_text, 40)),
                "times as numbers, in one unit; or `time_column` with another column");
  if (kinds[time.index] == ColumnKind::nothing)
    refuse_cell(Cause::data_corrupt, table.text.path, column.missing.first_line, column, "no row has a time",
                "`time_column` with another column");
  return time;
}

}  // namespace amdahl

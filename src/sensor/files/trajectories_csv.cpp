// Trajectories in CSV files: one row per sample.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "amdahl/error.h"
#include "files/float_loss.h"
#include "files/text_table.h"
#include "files/text_tokens.h"
#include "sensor/files/time_column.h"
#include "sensor/files/trajectories.h"

namespace amdahl {
namespace {

struct Columns {
  size_t time = 0;
  std::vector<size_t> values;
  size_t batch = SIZE_MAX;  // none
};

/// The samples of one trajectory.
struct Part {
  std::string name;
  std::vector<double> times;
  std::vector<float> values;
  std::vector<int64_t> lines;
};

size_t find_batch_column(const FileTable& table) {
  if (!table.has_header) return SIZE_MAX;
  for (const std::string_view known : {"batch", "trajectory", "episode"})
    for (const FileColumn& column : table.columns)
      if (column.name.size() == known.size() &&
          std::equal(known.begin(), known.end(), column.name.begin(), [](char a, char b) { return a == (b | 0x20); }))
        return column.index;
  return SIZE_MAX;
}

Columns find_columns(FileTable& table, const std::string& time_name, Trajectories& stream) {
  Columns columns;
  if (table.columns.size() == 1)
    throw Error(Cause::data_corrupt,
                fmt::format("{}, line {}: one column: no comma, semicolon, tab, bar or blank divides the lines alike",
                            table.text.path, table.text.first_line),
                "`delimiter` with what divides them; a column of times and at least one of numbers");
  columns.batch = find_batch_column(table);
  std::vector<ColumnKind> kinds;
  for (const FileColumn& column : table.columns)
    kinds.push_back(column.index == columns.batch ? ColumnKind::words : decide_kind(table, column));
  const TimeColumn time = find_time_column(table, kinds, columns.batch, time_name);
  columns.time = time.index;
  if (!time.note.empty()) table.notes.push_back(time.note);
  for (const FileColumn& column : table.columns) {
    if (column.index == columns.time || column.index == columns.batch) continue;
    const bool numbers = kinds[column.index] == ColumnKind::numbers;
    if (!numbers && column.numbers.count > 0 && column.numbers.count >= column.words.count)
      refuse_cell(Cause::data_corrupt, table.text.path, column.words.first_line, column,
                  fmt::format("'{}' is not a number, while {} of {} values are", printable(column.words.first_text, 40),
                              column.numbers.count, column.numbers.count + column.words.count),
                  "correct the value; or `missing_values` with what marks a missing one");
    if (numbers) columns.values.push_back(column.index);
    (numbers ? stream.names : stream.skipped).push_back(column.name);
  }
  if (columns.time == columns.batch || columns.values.empty())
    throw Error(Cause::data_corrupt,
                fmt::format("{}, line {}: there is no column of values", table.text.path, table.text.first_line),
                "a column of times and at least one of numbers");
  return columns;
}

/// A number of the row. A missing value that is written as NaN is NaN.
double number_at(const FileTable& table, const CsvRow& row, size_t index) {
  const FileColumn& column = table.columns[index];
  const std::string_view field = row.fields[index];
  double value = 0;
  const CellKind kind = table.read(column, field, value);
  if (kind == CellKind::missing && parse_number(field, value) && std::isnan(value)) return value;
  if (kind == CellKind::missing)
    refuse_cell(Cause::data_corrupt, table.text.path, row.line, column,
                field.empty() ? "a missing value" : fmt::format("'{}' is a missing value", printable(field, 40)),
                "`missing=drop`, which leaves its sample out");
  return value;
}

/// As a float. Finite numbers beyond its range would become infinite.
float value_at(const FileTable& table, const CsvRow& row, size_t index, FloatLoss& loss) {
  const double value = number_at(table, row, index);
  if (std::isfinite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()))
    refuse_cell(Cause::data_corrupt, table.text.path, row.line, table.columns[index],
                fmt::format("'{}' is beyond the range of 32-bit numbers", printable(row.fields[index], 40)),
                "another unit");
  loss.add(value);
  return static_cast<float>(value);
}

bool is_complete(const FileTable& table, const Columns& columns, const CsvRow& row) {
  const auto missing = [&](size_t index) { return table.markers.contains(row.fields[index]); };
  return !missing(columns.time) && std::none_of(columns.values.begin(), columns.values.end(), missing);
}

std::vector<Part> read_parts(const FileTable& table, const Columns& columns, bool drop,
                             std::vector<FloatLoss>& losses) {
  std::vector<Part> parts;
  std::map<std::string, size_t, std::less<>> places;
  size_t last = SIZE_MAX;
  table.for_each_row([&](const CsvRow& row) {
    if (drop && !is_complete(table, columns, row)) return;
    const std::string_view name = columns.batch == SIZE_MAX ? std::string_view() : row.fields[columns.batch];
    auto place = places.find(name);
    if (place == places.end()) {
      place = places.emplace(name, parts.size()).first;
      parts.emplace_back().name = name;
    }
    if (place->second != last)
      for (FloatLoss& loss : losses) loss.restart();
    last = place->second;
    Part& part = parts[last];
    part.times.push_back(number_at(table, row, columns.time));
    part.lines.push_back(row.line);
    for (size_t i = 0; i < columns.values.size(); ++i)
      part.values.push_back(value_at(table, row, columns.values[i], losses[i]));
  });
  if (parts.empty())
    throw Error(Cause::data_corrupt, fmt::format("{}: every row has a missing value", table.text.path),
                "a file with a complete row");
  return parts;
}

void require_equal_lengths(const FileTable& table, const Columns& columns, const std::vector<Part>& parts) {
  for (const Part& part : parts)
    if (part.times.size() != parts[0].times.size())
      throw Error(
          Cause::data_corrupt,
          fmt::format("{}: {} '{}' has {} samples and '{}' has {}", table.text.path, table.columns[columns.batch].name,
                      printable(parts[0].name, 40), parts[0].times.size(), printable(part.name, 40), part.times.size()),
          "equally long trajectories, or a file for each");
}

}  // namespace

Trajectories load_csv_trajectories(const std::string& path, const SensorFileOptions& options) {
  if (options.missing != "refuse" && options.missing != "drop")
    throw Error(Cause::usage, fmt::format("`missing`: unknown treatment '{}' of missing values", options.missing),
                choices_hint(options.missing, {"refuse", "drop"}));
  std::vector<std::string> named;
  if (!options.time_column.empty()) named.push_back(options.time_column);
  FileTable table = open_table(path, {options.delimiter, header_choice(options.header), options.missing_values}, named);
  tally_fields(table);
  Trajectories stream;
  const Columns columns = find_columns(table, options.time_column, stream);
  std::vector<FloatLoss> losses(columns.values.size());
  const std::vector<Part> parts = read_parts(table, columns, options.missing == "drop", losses);
  require_equal_lengths(table, columns, parts);
  stream.batch = static_cast<int64_t>(parts.size());
  stream.length = static_cast<int64_t>(parts[0].times.size());
  stream.width = static_cast<int64_t>(columns.values.size());
  stream.time_name = table.columns[columns.time].name;
  stream.warnings = std::move(table.notes);
  for (size_t i = 0; i < losses.size(); ++i)
    warn_of_loss(losses[i], fmt::format("{}, column '{}'", path, table.columns[columns.values[i]].name), stream);
  for (const Part& part : parts) {
    stream.times.insert(stream.times.end(), part.times.begin(), part.times.end());
    stream.values.insert(stream.values.end(), part.values.begin(), part.values.end());
  }
  check_times(stream, [&](int64_t b, int64_t s) {
    return fmt::format("{}, line {}, column {} '{}'", path, parts[static_cast<size_t>(b)].lines[static_cast<size_t>(s)],
                       columns.time + 1, stream.time_name);
  });
  return stream;
}

}  // namespace amdahl

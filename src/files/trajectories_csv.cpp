// Trajectories in CSV files: one row per sample.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "amdahl/units.h"
#include "files/csv_reader.h"
#include "files/text_tokens.h"
#include "files/trajectories.h"

namespace amdahl {
namespace {

struct Columns {
  bool has_header = true;
  std::vector<std::string> names;
  size_t time = 0;
  std::vector<size_t> values;
  std::vector<size_t> words;
  size_t batch = SIZE_MAX;  // none
};

/// The samples of one trajectory.
struct Part {
  std::string name;
  std::vector<double> times;
  std::vector<float> values;
  std::vector<int64_t> lines;
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

size_t find_column(const std::vector<std::string>& names, const std::vector<std::string_view>& known) {
  for (size_t i = 0; i < names.size(); ++i)
    if (std::find(known.begin(), known.end(), lower(names[i])) != known.end()) return i;
  return SIZE_MAX;
}

/// Takes the column names from the first line, and distinguishes numeric from text columns by the first data line.
Columns find_columns(const CsvText& text, char delimiter) {
  Columns columns;
  CsvReader reader(text, delimiter);
  CsvRow row;
  double value = 0;
  reader.next(row);
  columns.has_header = !parse_number(row.fields[0], value);
  for (size_t i = 0; i < row.fields.size(); ++i)
    columns.names.push_back(columns.has_header ? std::string(row.fields[i]) : fmt::format("c{}", i));
  if (columns.has_header) {
    const size_t time = find_column(columns.names, {"time", "t", "timestamp"});
    columns.time = time == SIZE_MAX ? 0 : time;
    columns.batch = find_column(columns.names, {"batch", "trajectory", "episode"});
    if (!reader.next(row))
      throw Error(Cause::data_corrupt, fmt::format("{}, line 2: there is no sample behind the header", text.path),
                  "one row per sample");
  }
  for (size_t i = 0; i < std::min(row.fields.size(), columns.names.size()); ++i) {
    if (i == columns.time || i == columns.batch) continue;
    const bool number = parse_number(row.fields[i], value) || row.fields[i].empty();
    (number ? columns.values : columns.words).push_back(i);
  }
  if (columns.time == columns.batch || columns.values.empty())
    throw Error(Cause::data_corrupt, fmt::format("{}, line {}: there is no column of values", text.path, row.line),
                "a column of times and at least one of numbers");
  return columns;
}

double number_at(const CsvText& text, const Columns& columns, const CsvRow& row, size_t column) {
  double value = 0;
  if (parse_number(row.fields[column], value)) return value;
  throw Error(Cause::data_corrupt,
              fmt::format("{}, line {}, column {} '{}': '{}' is no number", text.path, row.line, column + 1,
                          columns.names[column], printable(row.fields[column], 40)),
              "a number in every row; drop the samples that lack one");
}

std::vector<Part> read_parts(const CsvText& text, const Columns& columns, char delimiter) {
  std::vector<Part> parts;
  std::map<std::string, size_t, std::less<>> places;
  CsvReader reader(text, delimiter);
  CsvRow row;
  if (columns.has_header) reader.next(row);
  while (reader.next(row)) {
    if (row.fields.size() != columns.names.size())
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: {} fields, where there are {} columns", text.path, row.line,
                              row.fields.size(), columns.names.size()),
                  "as many fields in every row");
    const std::string_view name = columns.batch == SIZE_MAX ? std::string_view() : row.fields[columns.batch];
    auto place = places.find(name);
    if (place == places.end()) {
      place = places.emplace(name, parts.size()).first;
      parts.emplace_back().name = name;
    }
    Part& part = parts[place->second];
    part.times.push_back(number_at(text, columns, row, columns.time));
    part.lines.push_back(row.line);
    for (const size_t column : columns.values)
      part.values.push_back(static_cast<float>(number_at(text, columns, row, column)));
  }
  return parts;
}

void require_equal_lengths(const CsvText& text, const Columns& columns, const std::vector<Part>& parts) {
  for (const Part& part : parts)
    if (part.times.size() != parts[0].times.size())
      throw Error(
          Cause::data_corrupt,
          fmt::format("{}: {} '{}' has {} samples and '{}' has {}", text.path, columns.names[columns.batch],
                      printable(parts[0].name, 40), parts[0].times.size(), printable(part.name, 40), part.times.size()),
          "equally long trajectories, or a file for each");
}

}  // namespace

Trajectories load_csv_trajectories(const std::string& path) {
  const CsvText text = read_csv_text(path);
  const char delimiter = detect_delimiter(text);
  const Columns columns = find_columns(text, delimiter);
  const std::vector<Part> parts = read_parts(text, columns, delimiter);
  require_equal_lengths(text, columns, parts);
  Trajectories stream;
  stream.batch = static_cast<int64_t>(parts.size());
  stream.length = static_cast<int64_t>(parts[0].times.size());
  stream.width = static_cast<int64_t>(columns.values.size());
  for (const size_t column : columns.values) stream.names.push_back(columns.names[column]);
  for (const size_t column : columns.words) stream.skipped.push_back(columns.names[column]);
  for (const Part& part : parts) {
    stream.times.insert(stream.times.end(), part.times.begin(), part.times.end());
    stream.values.insert(stream.values.end(), part.values.begin(), part.values.end());
  }
  check_times(stream, [&](int64_t b, int64_t s) {
    return fmt::format("{}, line {}, column {} '{}'", path, parts[static_cast<size_t>(b)].lines[static_cast<size_t>(s)],
                       columns.time + 1, columns.names[columns.time]);
  });
  return stream;
}

}  // namespace amdahl

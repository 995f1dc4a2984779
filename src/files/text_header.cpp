// Whether the first line of a table names its columns.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "amdahl/error.h"
#include "files/text_table.h"
#include "files/text_tokens.h"

namespace amdahl {
namespace {

bool is_number(std::string_view field) {
  double value = 0;
  return parse_number(field, value) || spell_number(field).readable();
}

/// The fields of the first line, and for each column what the rows below it say.
struct FirstLine {
  std::vector<std::string> fields;
  size_t numbers = 0, words = 0;
  bool whole = true;           // all of its numbers are, as those in names
  bool distinct = true;        // no field twice
  bool over_numbers = false;   // a word stands over a column of numbers
  bool any_numbers = false;    // some column below is one of numbers
  bool over_recurring = true;  // each word stands over a column whose fields recur, and is none of them
};

FirstLine look_at_first_line(const CsvText& text, char delimiter, const MissingMarkers& markers) {
  constexpr size_t kRows = 200, kFields = 100'000;
  FirstLine first;
  CsvReader reader(text, delimiter);
  CsvRow row;
  reader.next(row);
  first.fields.assign(row.fields.begin(), row.fields.end());
  const size_t width = first.fields.size();
  std::vector<size_t> filled(width), numbers(width);
  std::vector<std::set<std::string, std::less<>>> below(width);
  const size_t rows = std::clamp<size_t>(kFields / std::max<size_t>(width, 1), 1, kRows);
  for (size_t i = 0; i < rows && reader.next(row); ++i)
    for (size_t c = 0; c < std::min(width, row.fields.size()); ++c) {
      if (markers.contains(row.fields[c])) continue;
      ++filled[c];
      numbers[c] += is_number(row.fields[c]);
      below[c].emplace(row.fields[c]);
    }
  std::set<std::string_view> seen;
  for (size_t c = 0; c < width; ++c) {
    const std::string& field = first.fields[c];
    const bool all_numbers = filled[c] > 0 && numbers[c] == filled[c];
    first.any_numbers = first.any_numbers || all_numbers;
    if (!field.empty() && !seen.insert(field).second) first.distinct = false;
    if (is_number(field)) {
      ++first.numbers;
      first.whole =
          first.whole && std::all_of(field.begin(), field.end(), [](char sign) { return sign >= '0' && sign <= '9'; });
    } else if (!markers.contains(field)) {
      ++first.words;
      first.over_numbers = first.over_numbers || all_numbers;
      first.over_recurring = first.over_recurring && below[c].size() < filled[c] && !below[c].contains(field);
    }
  }
  return first;
}

/// The decision, and what a note says about it where it may be wrong.
struct HeaderDecision {
  bool header = false;
  std::string why;
};

HeaderDecision decide_header(const FirstLine& first, const std::vector<std::string>& named) {
  if (first.numbers == 0 && first.words > 0) return {true, first.any_numbers ? "" : "no column below holds numbers"};
  const auto in_first = [&](const std::string& name) {
    return std::find(first.fields.begin(), first.fields.end(), name) != first.fields.end();
  };
  if (!named.empty() && std::all_of(named.begin(), named.end(), in_first))
    return {true, "the columns that were asked for are named there"};
  if (first.words == 0) return {false, first.whole && first.numbers > 0 ? "all of its fields are whole numbers" : ""};
  if (first.distinct && first.over_numbers) return {true, "it has numbers, and words over columns of numbers"};
  if (first.distinct && first.over_recurring) return {true, "it has numbers, and words that do not occur below"};
  return {false, "it has numbers"};
}

}  // namespace

HeaderChoice header_choice(const std::string& text) {
  if (text == "auto") return HeaderChoice::automatic;
  if (text == "yes") return HeaderChoice::present;
  if (text == "no") return HeaderChoice::absent;
  throw Error(Cause::usage, fmt::format("`header`: unknown value '{}'", text),
              choices_hint(text, {"auto", "yes", "no"}));
}

FileTable open_table(const std::string& path, const TableOptions& options, const std::vector<std::string>& named) {
  FileTable table;
  table.text = read_csv_text(path);
  table.delimiter = find_records(table.text, options.delimiter);
  table.markers = MissingMarkers(options.missing_values);
  const FirstLine first = look_at_first_line(table.text, table.delimiter, table.markers);
  if (first.fields.empty())
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: the file is empty", path), "a file with rows");
  table.has_header = options.header == HeaderChoice::present;
  if (options.header == HeaderChoice::automatic) {
    const HeaderDecision decision = decide_header(first, named);
    table.has_header = decision.header;
    if (!decision.why.empty())
      table.notes.push_back(fmt::format("{}: the first line is taken as {}: {} (`header=yes` or `header=no` decides)",
                                        path, decision.header ? "names of columns" : "data", decision.why));
  }
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < first.fields.size(); ++i) {
    FileColumn& column = table.columns.emplace_back();
    column.index = i;
    if (table.has_header) column.name = first.fields[i];
    if (column.name.empty()) column.name = fmt::format("c{}", i);
    if (const auto [other, is_new] = places.emplace(column.name, i); !is_new)
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: columns {} and {} are both named '{}'", path, table.text.first_line,
                              other->second + 1, i + 1, column.name),
                  "give every column a name of its own");
  }
  return table;
}

}  // namespace amdahl

// A delimited text file as a table: its header, and what the fields of each column are, decided from all rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "files/csv_reader.h"
#include "files/number_spelling.h"

namespace amdahl {

enum class HeaderChoice { automatic, present, absent };

/// "auto", "yes" or "no"; Error{usage} otherwise.
HeaderChoice header_choice(const std::string& text);

struct TableOptions {
  char delimiter = 0;  // 0: find_records decides
  HeaderChoice header = HeaderChoice::automatic;
  std::vector<std::string> missing_values;  // further markers of a missing value
};

/// What stands for a missing value: an empty field, those that pandas knows, NA, N/A, null and nan in any case, "?",
/// and the texts of the options. An option that is a number stands for that number in any spelling.
class MissingMarkers {
 public:
  explicit MissingMarkers(std::vector<std::string> more = {});
  bool contains(std::string_view field) const;

 private:
  std::vector<std::string> more_;
  std::vector<double> numbers_;
};

enum class CellKind { missing, number, non_finite, word };

struct FileColumn {
  std::string name;
  size_t index = 0;
  CellTally missing, numbers, non_finite, words;
  ColumnSpelling spelling;
  /// The first different words and numbers, at most kFewWords + 1 and kManyNumbers.
  std::vector<std::string> some_words, some_numbers;

  static constexpr size_t kFewWords = 3, kManyNumbers = 10;
};

enum class ColumnKind { nothing, numbers, words };

struct FileTable {
  CsvText text;
  char delimiter = ',';
  bool has_header = true;
  MissingMarkers markers;
  std::vector<FileColumn> columns;
  int64_t num_rows = 0;            // data rows
  std::vector<std::string> notes;  // what was decided and may be wrong

  /// The kind of a field; `value` is set for a number, and for a non-finite one.
  CellKind read(const FileColumn& column, std::string_view field, double& value) const;
  /// Calls `visit(row)` for every data row.
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    CsvReader reader(text, delimiter);
    CsvRow row;
    if (has_header) reader.next(row);
    while (reader.next(row)) visit(row);
  }
};

/// Reads the file and names its columns. Without a choice the first line holds names unless one of its fields is a
/// number; where a field is, the columns below it, and `named`, names that the user knows, decide, and a note says so.
/// Error{data_corrupt} for two columns of one name.
FileTable open_table(const std::string& path, const TableOptions& options, const std::vector<std::string>& named = {});

/// Tallies all fields. Error{data_corrupt} for a row with fewer or more fields than columns, and for no row.
void tally_fields(FileTable& table);

/// Decides what a column holds, and adds a note where its numbers are spelled unusually or words stand among them.
/// Error{data_corrupt} for numbers that cannot be read alike, and for words where nearly all or many different fields
/// are numbers: a typing error, or a marker of missing values.
ColumnKind decide_kind(FileTable& table, const FileColumn& column);

/// "digits.csv, line 12, column 3 'age': what", as an Error.
[[noreturn]] void refuse_cell(Cause cause, const std::string& path, int64_t line, const FileColumn& column,
                              const std::string& what, const std::string& remedy);

}  // namespace amdahl

// Column types of a CSV file, inferred in one pass over its rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/csv_reader.h"
#include "train/csv.h"

namespace amdahl {

enum class CellKind { missing, number, non_finite, word };

/// The kind of one field; `value` is set for a number. Finite numbers beyond the range of a 32-bit float are
/// non_finite.
CellKind classify_cell(std::string_view cell, double& value);

/// How often one kind of field occurs in a column, and its first occurrence.
struct CellTally {
  int64_t count = 0;
  int64_t first_line = 0;
  std::string first_text;
};

struct CsvColumn {
  enum class Role { feature, target, ignored };
  std::string name;
  size_t index = 0;
  Role role = Role::feature;
  bool categorical = false;
  CellTally missing, numbers, non_finite, words, decimal_commas;
  std::map<std::string, int, std::less<>> categories;  // value -> position in sorted order
  int64_t first_feature = 0;                           // index of its first feature in a row

  int64_t width() const { return categorical ? static_cast<int64_t>(categories.size()) : 1; }
};

/// The columns of a file with their roles and types, and its text positioned for reading rows.
struct CsvTable {
  CsvText text;
  char delimiter = ',';
  bool has_header = true;
  std::vector<CsvColumn> columns;
  bool drop_incomplete = false;
  int64_t num_rows = 0;  // data rows, including dropped ones

  /// Calls `visit(row)` for every data row (after the header) that is kept.
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    CsvReader reader(text, delimiter);
    CsvRow row;
    if (has_header) reader.next(row);
    while (reader.next(row))
      if (!drop_incomplete || is_complete(row)) visit(row);
  }
  /// No feature or target of the row is missing.
  bool is_complete(const CsvRow& row) const;
};

/// Reads the file, finds its columns, checks every field once and decides the types.
CsvTable scan_csv(const CsvOptions& options);

/// "digits.csv, line 12, column 3 'age': what", as an Error.
[[noreturn]] void refuse_cell(Cause cause, const std::string& path, int64_t line, const CsvColumn& column,
                              const std::string& what, const std::string& remedy);

}  // namespace amdahl

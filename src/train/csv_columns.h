// Column types of a CSV file, inferred in one pass over its rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/text_table.h"
#include "train/csv.h"

namespace amdahl {

struct CsvColumn : FileColumn {
  enum class Role { feature, target, ignored };
  Role role = Role::feature;
  bool categorical = false;
  std::map<std::string, int, std::less<>> categories;  // value -> position in sorted order
  int64_t first_feature = 0;                           // index of its first feature in a row

  int64_t width() const { return categorical ? static_cast<int64_t>(categories.size()) : 1; }
};

/// The columns of a file with their roles and types, and its text positioned for reading rows.
struct CsvTable {
  FileTable table;  // its columns are moved into `columns`
  std::vector<CsvColumn> columns;
  bool drop_incomplete = false;

  const std::string& path() const { return table.text.path; }
  CellKind read(const CsvColumn& column, const CsvRow& row, double& value) const {
    return table.read(column, row.fields[column.index], value);
  }
  /// Calls `visit(row)` for every data row (after the header) that is kept.
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    table.for_each_row([&](const CsvRow& row) {
      if (!drop_incomplete || is_complete(row)) visit(row);
    });
  }
  /// No feature or target of the row is missing.
  bool is_complete(const CsvRow& row) const;
};

/// Reads the file, finds its columns, checks every field once and decides the types.
CsvTable scan_csv(const CsvOptions& options);

}  // namespace amdahl

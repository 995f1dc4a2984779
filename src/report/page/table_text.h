// Text of table cells on pages, and which columns are numeric.
#pragma once

#include <string>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

/// At least three significant digits; integers in full; "n/a" for missing values.
std::string table_text(const TableValue& value);
/// A table as text. Columns titled "from" and "to" are merged into the column before them: "1.53 [1.50, 1.56]" under
/// "Speedup [95 % CI]".
struct TextTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // each of head.size() cells
  std::vector<bool> numbers;                   // per column: every cell begins as a number or is missing
};
TextTable text_table(const DataTable& table);

/// Removes the columns whose cells are all equal and returns them as "Devices: 2; Launch: graph". Columns without any
/// value are removed in silence. Of one row only those.
std::string take_common(TextTable& table);

}  // namespace amdahl

// Text of table cells on pages, and which columns are numeric.
#pragma once

#include <string>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

/// At least three significant digits; integers in full; "n/a" for missing values.
std::string table_text(const TableValue& value);
/// Per column, whether all present values are numbers; these columns are right-aligned.
std::vector<bool> number_columns(const DataTable& table);

}  // namespace amdahl

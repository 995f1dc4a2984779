// Tables of pages: what a cell shows, and which columns are numbers.
#pragma once

#include <string>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

/// Three significant digits at least; whole numbers in full; "n/a" for what is missing.
std::string table_text(const TableValue& value);
/// Of each column, whether every value that is there is a number. Shown right-aligned.
std::vector<bool> number_columns(const DataTable& table);

}  // namespace amdahl

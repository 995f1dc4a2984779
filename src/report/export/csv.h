// Records as one table in long format, for spreadsheets and data frames.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// RFC 4180, one row per sample; a record without samples has one row without series. Axes are columns "axis.NAME",
/// empty if a record lacks them. Text that a spreadsheet could interpret as a formula, or that begins with an
/// apostrophe, is prefixed with an apostrophe; numbers have full precision.
std::string records_csv(const std::vector<Record>& records);

}  // namespace amdahl

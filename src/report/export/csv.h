// Records as one long table, for spreadsheets and data frames.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// RFC 4180, a row a sample; a record without samples has one row without series. Axes are columns "axis.NAME", empty
/// where a record lacks them. Text that a spreadsheet could take for a formula, or that begins with an apostrophe, gets
/// an apostrophe before it; numbers are as they were measured, in every digit.
std::string records_csv(const std::vector<Record>& records);

}  // namespace amdahl

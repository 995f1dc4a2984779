// Which column of a table holds the times.
#pragma once

#include <string>
#include <vector>

#include "files/text_table.h"

namespace amdahl {

struct TimeColumn {
  size_t index = 0;
  std::string note;  // how it was found, where neither the user nor its name says so
};

/// `wanted`, a name, unless it is empty. Else the column named time, t, timestamp, stamp or ts, whatever unit, bracket
/// or case its name has beside that; else the only column whose name has such a word, or the only one at all, in which
/// numbers rise and never fall; without a header the first column. `batch`: a column that tells trajectories apart, or
/// SIZE_MAX. Error{usage} for a name that is not there, and where several columns or none can be the time;
/// Error{data_corrupt} for a time column without numbers.
TimeColumn find_time_column(const FileTable& table, const std::vector<ColumnKind>& kinds, size_t batch,
                            const std::string& wanted);

}  // namespace amdahl

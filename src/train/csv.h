// Reads a CSV file as a Dataset. Column types are inferred; a field that cannot be read is an error that names file,
// line and column.
#pragma once

#include <string>
#include <vector>

#include "files/text_table.h"
#include "train/dataset.h"

namespace amdahl {

struct CsvOptions {
  enum class Missing { refuse, drop_row, mean };
  enum class Task { automatic, regression, classification };

  std::string path;
  std::vector<std::string> target_columns;
  std::vector<std::string> ignore_columns;
  TableOptions table;
  Missing missing = Missing::refuse;
  Task task = Task::automatic;
  int64_t window = 0;  // consecutive rows per input, whose target is that of the last row; 0: one row, without steps
  int64_t stride = 1;  // rows from one window to the next
};

/// Reads a file into memory and converts it to numbers.
///
/// - Header: see open_table; without one the columns are c0, c1, ...
/// - Missing: see MissingMarkers. refuse: an error with its line. drop_row: the row is skipped. mean: the mean of the
///   column over the file (for a categorical column: the category frequencies); a missing target is never filled in.
/// - Features: a column whose values are numbers is one feature; any other is categorical and becomes one feature
///   "column=value" per value (sorted, at most 1,000). See decide_kind for what is refused. Numbers whose standard
///   deviation is small beside their mean are stored relative to it (Dataset::feature_origins).
/// - Target: one categorical column, or one of integers with at most 100 distinct values, gives classes
///   (cross-entropy) unless `task` overrides it; everything else is regression (mse).
/// - Window: rows in the order of the file, see slide_windows.
///
/// Error{usage}: no such file, unknown or repeated column names in the options, a task that does not fit the target,
/// a window longer than the file or over dropped rows.
/// Error{data_corrupt}: unreadable content. Error{non_finite}: NaN, infinity or a number too large for 32 bits.
Dataset load_csv(const CsvOptions& options);

}  // namespace amdahl

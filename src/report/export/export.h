// Records as a table and as metrics.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// RFC 4180, one row per sample; a record without samples has one row without series. Axes are columns "axis.NAME",
/// empty if a record lacks them. Text that a spreadsheet could interpret as a formula, or that begins with an
/// apostrophe, is prefixed with an apostrophe; numbers have full precision.
std::string records_csv(const std::vector<Record>& records);

/// One gauge "amdahl_<series>_<unit>" with label statistic="median" and "mean", and one "amdahl_<series>_samples", per
/// set of records that differ only in their run number; for training epochs, the last epoch. `study` adds verdicts;
/// null: none. Units are converted to base units: us to seconds, GB/s to bytes_per_second, percent to ratio.
std::string prometheus_text(const std::vector<Record>& records, const StudySummary* study = nullptr);

}  // namespace amdahl

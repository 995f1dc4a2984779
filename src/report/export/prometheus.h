// Records as metrics in the text format of Prometheus, version 0.0.4.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// One gauge "amdahl_<series>_<unit>" with label statistic="median" and "mean", and one "amdahl_<series>_samples", per
/// set of records that differ only in their run number; for training epochs, the last epoch. `study` adds verdicts;
/// null: none. Units are converted to base units: us to seconds, GB/s to bytes_per_second, percent to ratio.
std::string prometheus_text(const std::vector<Record>& records, const StudySummary* study = nullptr);

}  // namespace amdahl

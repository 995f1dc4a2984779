// Records as metrics: the text format of Prometheus, version 0.0.4.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// A gauge "amdahl_<series>_<unit>" with label statistic="median" and "mean", and "amdahl_<series>_samples", for each
/// set of records that differ in nothing but the number of their run; of training epochs the last. `study` adds
/// verdicts; null: none. Units are the base ones: us become seconds, GB/s bytes_per_second, percent ratio.
std::string prometheus_text(const std::vector<Record>& records, const StudySummary* study = nullptr);

}  // namespace amdahl

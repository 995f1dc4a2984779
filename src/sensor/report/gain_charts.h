// What several devices bring: speedup, efficiency and overhead, of one run and of compared runs.
#pragma once

#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/record.h"
#include "chart/chart.h"

namespace amdahl {

/// Per operation whose devices do the same work and that was measured on one device and on several: speedup, efficiency
/// and overhead over the number of devices. Overhead is the time beyond that of ideal scaling.
std::vector<Chart> sensor_gain_charts(const std::vector<Record>& records);

/// Bars of the compared results of a workload: speedup over the best single device; efficiency and what it lacks.
/// `number` makes the charts' names unique.
std::vector<Chart> workload_charts(const WorkloadComparison& workload, size_t number,
                                   const std::vector<std::string>& names);

}  // namespace amdahl

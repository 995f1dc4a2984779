// Charts of records of kind "sensor".
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "chart/chart.h"
#include "sensor/report/crossover.h"

namespace amdahl {

/// One chart per operation: work per second over work size, one line per device count (or per voxel mode, if there is
/// one count). Marks the size from which several devices are faster than one.
std::vector<Chart> sensor_size_charts(const std::vector<Record>& records);

/// One chart per operation: work per second over the number of devices, one line per workload with its ideal. Only for
/// work measured on several device counts.
std::vector<Chart> sensor_device_charts(const std::vector<Record>& records);

/// For each workload that was divided by several methods (task, pipeline, hetero): work per second per method with its
/// upper bound, and the share of each device.
std::vector<Chart> divided_work_charts(const std::vector<Record>& records);

/// The crossovers of all groups in which several devices are faster at the largest size.
std::vector<Crossover> sensor_crossovers(const std::vector<Record>& records);
/// One line per group measured at several sizes: the size from which several devices are faster, or that they are not.
std::vector<std::string> crossover_lines(const std::vector<Record>& records);

/// Display unit of a rate and its divisor: "M points/s" and 1e6 for a rate in points/s.
struct RateUnit {
  std::string unit;
  double divisor = 1;
};
RateUnit rate_unit(const Record& record);

}  // namespace amdahl

// Charts of sensor Records.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "chart/chart.h"
#include "report/sensor/crossover.h"

namespace amdahl {

/// A chart an operation: work a second against the size of the work, a line a count of devices (or a voxel mode, where
/// there is one count). Where several devices overtake one for good is marked.
std::vector<Chart> sensor_size_charts(const std::vector<Record>& records);

/// A chart an operation: work a second against devices, a line a workload with its ideal. Of what was measured on
/// several counts.
std::vector<Chart> sensor_device_charts(const std::vector<Record>& records);

/// For each work that is divided in several ways (task, pipeline, hetero): work a second a way with the most that is
/// possible, and what each device does of it.
std::vector<Chart> divided_work_charts(const std::vector<Record>& records);

/// Of each group that is ahead at its largest size.
std::vector<Crossover> sensor_crossovers(const std::vector<Record>& records);
/// A line for each group that was measured at several sizes: from which on several devices are ahead, or that they are
/// not.
std::string crossover_text(const std::vector<Record>& records);

/// "M points/s" for a rate in points/s, and what to divide by.
struct RateUnit {
  std::string unit;
  double divisor = 1;
};
RateUnit rate_unit(const Record& record);

}  // namespace amdahl

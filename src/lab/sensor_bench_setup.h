// From a SensorBenchConfig to the cells that are measured.
#pragma once

#include <vector>

#include "amdahl/sensor_bench.h"
#include "measure/sensor_bench.h"

namespace amdahl {

/// Error{usage} for unknown names, numbers out of range, and what a mode does not do.
void check_sensor_bench(const SensorBenchConfig& config);

/// A cell for every workload, voxel mode, cache state and count of devices; cells that differ in the devices alone, and
/// will be compared, are together.
std::vector<std::vector<SensorCell>> sensor_cells(const SensorBenchConfig& config);

}  // namespace amdahl

// From a SensorBenchConfig to the cells that are measured.
#pragma once

#include <vector>

#include "amdahl/sensor_bench.h"
#include "measure/sensor/bench.h"

namespace amdahl {

/// Error{usage} for unknown names, numbers out of range, and what a mode does not do.
void check_sensor_bench(const SensorBenchConfig& config);

/// The names of `op`. Error{usage} for one that comes twice.
std::vector<std::string> sensor_operations(const SensorBenchConfig& config);

/// The jobs of all operations: every batch size, every number of points in every voxel mode.
std::vector<SensorJob> sensor_jobs(const SensorBenchConfig& config);

/// A cell for every workload, voxel mode, cache state and count of devices; cells that differ in the devices alone, and
/// will be compared, are together.
std::vector<std::vector<SensorCell>> sensor_cells(const SensorBenchConfig& config);

/// Error{out_of_memory} when jobs that all lie whole on each of `devices` devices are too large for one by its
/// specification.
void require_room(const Fleet& fleet, const std::vector<SensorJob>& jobs, int devices);

}  // namespace amdahl

// Turns a SensorBenchConfig into the cells to measure.
#pragma once

#include <vector>

#include "amdahl/sensor.h"
#include "sensor/measure/bench.h"

namespace amdahl {

/// Error{usage} for unknown names, numbers out of range, and options that the mode does not support.
void check_sensor_bench(const SensorBenchConfig& config);

/// The operations that `op` lists. Error{usage} for a duplicate.
std::vector<std::string> sensor_operations(const SensorBenchConfig& config);

/// The jobs of all operations: one per batch size, and one per number of points and voxel mode.
std::vector<SensorJob> sensor_jobs(const SensorBenchConfig& config);

/// One cell per workload, voxel mode, cache state and device count. Cells that differ only in the devices, and will be
/// compared, are in one group.
std::vector<std::vector<SensorCell>> sensor_cells(const SensorBenchConfig& config);

/// Error{out_of_memory} when the jobs, each held in full on each of `devices` devices, exceed the memory that a device
/// specifies.
void require_room(const Fleet& fleet, const std::vector<SensorJob>& jobs, int devices);

}  // namespace amdahl

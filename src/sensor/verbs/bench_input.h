// Input files of the sensor benchmark, and their provenance.
#pragma once

#include <map>
#include <string>

#include "amdahl/sensor.h"

namespace amdahl {

/// Returns the configuration with the contents of its input files, and with the numbers that follow from the data:
/// points, batch sizes, streams, features. Error{usage} for files that match no operation, and for more points or
/// features than the files have; also throws what load_point_cloud and load_trajectories throw.
SensorBenchConfig with_inputs(const SensorBenchConfig& config);

/// Warns of what the files' readers decided and what numbers lost.
void tell_about_inputs(const SensorBenchConfig& config, Observer& observer);

/// Name of a job's data: file names without folders, "memory", or empty when generated.
std::string input_name(const SensorBenchConfig& config, bool of_cloud);

/// Name, size and digest of each input file, for the provenance.
std::map<std::string, std::string> input_facts(const SensorBenchConfig& config);

}  // namespace amdahl

// Data of the sensor benchmark that are not generated, and what is not said of generated ones.
#pragma once

#include <map>
#include <string>

#include "amdahl/sensor_bench.h"

namespace amdahl {

/// The configuration with what its files hold, and with numbers in place of what the data decide: points, batch sizes,
/// streams, features. Error{usage} for files that fit no operation, and for more points or features than there are;
/// errors of load_point_cloud and load_trajectories.
SensorBenchConfig with_inputs(const SensorBenchConfig& config);

/// What a job's data are called: the names of the files without their folders, "memory", or nothing when generated.
std::string input_name(const SensorBenchConfig& config, bool of_cloud);

/// Name, size and digest of each file, for the provenance.
std::map<std::string, std::string> input_facts(const SensorBenchConfig& config);

}  // namespace amdahl

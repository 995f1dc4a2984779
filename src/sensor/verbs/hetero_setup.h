// Mode hetero of the sensor benchmark: heterogeneous devices.
#pragma once

#include <memory>
#include <vector>

#include "sensor/verbs/modes.h"

namespace amdahl {

void check_hetero(const SensorBenchConfig& config);
std::vector<SensorStep> hetero_steps(const SensorBenchConfig& config);
/// `devices` includes the CPU device.
std::unique_ptr<Fleet> hetero_fleet(const SensorBenchConfig& config, int devices, const JobFacts& facts);

}  // namespace amdahl

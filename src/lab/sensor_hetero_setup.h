// Mode hetero of the sensor benchmark: devices of unlike speed.
#pragma once

#include <memory>
#include <vector>

#include "lab/sensor_modes.h"

namespace amdahl {

void check_hetero(const SensorBenchConfig& config);
std::vector<SensorStep> hetero_steps(const SensorBenchConfig& config);
/// `devices` counts the CPU's share.
std::unique_ptr<Fleet> hetero_fleet(const SensorBenchConfig& config, int devices, const JobFacts& facts);

}  // namespace amdahl

// Mode pipeline of the sensor benchmark: preprocessing feeds training.
#pragma once

#include <vector>

#include "sensor/verbs/modes.h"

namespace amdahl {

void check_pipeline(const SensorBenchConfig& config);
std::vector<SensorStep> pipeline_steps(const SensorBenchConfig& config);

}  // namespace amdahl

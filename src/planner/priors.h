// What is believed of a machine before its steps are measured. Thread-safe: pure functions.
#pragma once

#include <string>

#include "planner/rates.h"

namespace amdahl {

/// Virtual devices of one thread each that share so many cores.
Rates cpu_prior(int cores);
/// By the data sheet of the kind that the device's name holds, else an H100's. `math`: "fp32", "tf32", "bf16".
Rates gpu_prior(const std::string& device_name, const std::string& math);

}  // namespace amdahl

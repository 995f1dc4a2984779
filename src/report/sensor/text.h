// Tables of sensor measurements, made from their records only.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// One table per operation, mode and launch configuration: times with intervals, throughput, and for work measured on
/// several device counts the speedup and efficiency relative to one device.
std::string sensor_text(const std::vector<Record>& records);

}  // namespace amdahl

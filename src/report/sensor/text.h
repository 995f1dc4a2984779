// Tables of sensor measurements, from their records alone.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// A table for each operation, mode and way to run; times with their intervals, throughput, and where several counts of
/// devices did the same work, speedup and efficiency against one.
std::string sensor_text(const std::vector<Record>& records);

}  // namespace amdahl

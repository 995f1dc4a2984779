// Tables of the sensor benchmark's modes in which devices do different things: task, pipeline and hetero.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// A table for each mode, workload and way to run; each row beside the same work on one device.
std::string divided_work_text(const std::vector<Record>& records);

}  // namespace amdahl

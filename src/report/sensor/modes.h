// Tables of the sensor benchmark's modes in which devices do different work: task, pipeline and hetero.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// One table per mode, workload and launch configuration; each row is compared with the same work on one device.
std::string divided_work_text(const std::vector<Record>& records);

}  // namespace amdahl

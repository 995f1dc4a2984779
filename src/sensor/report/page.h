// The page of a sensor benchmark.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

Page sensor_page(const std::vector<Record>& records);

}  // namespace amdahl

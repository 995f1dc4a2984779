// The page of a run of `onesided`: which method wins at which size, what fixed rules lose, patterns, all measurements.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

Page onesided_page(const std::vector<Record>& records);

}  // namespace amdahl

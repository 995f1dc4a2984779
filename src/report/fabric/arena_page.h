// The page of an arena run, which compares transports.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

Page arena_page(const std::vector<Record>& records);

}  // namespace amdahl

// The page of one training run.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

/// `records` holds at least one epoch.
Page training_page(const std::vector<Record>& records);

}  // namespace amdahl

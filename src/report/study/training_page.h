// The page of one training run.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

/// `records` must not be empty.
Page training_page(const std::vector<Record>& records);

}  // namespace amdahl

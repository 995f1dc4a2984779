// A study as a page: verdict, charts with their tables, every cell, and how it was measured.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// `records` are those that `summary` was made of; of them the samples are drawn.
Page study_page(const StudySummary& summary, const std::vector<Record>& records);

}  // namespace amdahl

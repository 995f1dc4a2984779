// The page of a study: verdict, charts with their tables, all cells, and the method.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// `records`: the records that `summary` was made from; used to draw samples.
Page study_page(const StudySummary& summary, const std::vector<Record>& records);

}  // namespace amdahl

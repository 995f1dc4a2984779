// The page of a comparison: verdict, speeds with their intervals, all cells.
#pragma once

#include <string>

#include "amdahl/comparison.h"
#include "report/page/page.h"

namespace amdahl {

/// `json`: the JSON output of compare, embedded so that the page can be read back.
Page compare_page(const RunsComparison& comparison, const std::string& json);

}  // namespace amdahl

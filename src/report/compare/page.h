// A comparison as a page: verdict, speeds with their intervals, every cell.
#pragma once

#include <string>

#include "amdahl/comparison.h"
#include "report/page/page.h"

namespace amdahl {

/// `json` is what compare prints as JSON, so that the page can be read again.
Page compare_page(const RunsComparison& comparison, const std::string& json);

}  // namespace amdahl

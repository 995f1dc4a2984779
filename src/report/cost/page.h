// Cost as a page: verdict, work per hour and for the money, break-evens, what else the money could buy.
#pragma once

#include <string>

#include "report/cost/cost.h"
#include "report/page/page.h"

namespace amdahl {

/// `json` is what cost prints as JSON, so that the page can be read again.
Page cost_page(const CostReport& report, const std::string& json);

}  // namespace amdahl

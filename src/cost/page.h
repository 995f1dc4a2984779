// The page of a cost report: verdict, work per hour and per unit of money, break-evens, and alternatives for the same
// money.
#pragma once

#include <string>

#include "cost/cost.h"
#include "report/page/page.h"

namespace amdahl {

/// `json`: the JSON output of cost, embedded so that the page can be read back.
Page cost_page(const CostReport& report, const std::string& json);

}  // namespace amdahl

// The tables of a cost report.
#pragma once

#include <string>
#include <vector>

#include "cost/cost.h"
#include "report/page/page.h"

namespace amdahl {

PageTable cost_table(const CostReport& report, const CostWork& work);
/// One row per break-even, by time or by price; empty without break-evens.
PageTable break_even_table(const CostReport& report);
/// Marked as modelled; empty without alternatives.
PageTable alternatives_table(const CostReport& report);
/// The source of the prices, and that the user should edit them.
std::string prices_text(const CostReport& report);
/// The formulas in a few lines.
std::vector<std::string> cost_method();

}  // namespace amdahl

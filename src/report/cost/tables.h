// The tables of a cost report, shared by terminal, Markdown and page.
#pragma once

#include <string>
#include <vector>

#include "report/common/words.h"
#include "report/cost/cost.h"

namespace amdahl {

struct CostTable {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

CostTable cost_table(const CostReport& report, const CostWork& work);
/// One row per break-even, by time or by price; empty without break-evens.
CostTable break_even_table(const CostReport& report);
/// Marked as modelled; empty without alternatives.
CostTable alternatives_table(const CostReport& report);
/// The source of the prices, and that the user should edit them.
std::string prices_text(const CostReport& report);
/// The formulas in a few lines.
std::vector<std::string> cost_method();

}  // namespace amdahl

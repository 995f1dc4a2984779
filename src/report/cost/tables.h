// The tables of a cost report, the same on the terminal, in Markdown and on a page.
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
/// By time and by price, a row each; empty without a break-even that could be looked for.
CostTable break_even_table(const CostReport& report);
/// Marked as modelled; empty without alternatives.
CostTable alternatives_table(const CostReport& report);
/// Where the prices come from, and that they are to be edited.
std::string prices_text(const CostReport& report);
/// The formulas in a few lines.
std::vector<std::string> cost_method();

}  // namespace amdahl

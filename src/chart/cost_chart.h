// Work per hour and for the money over sizes, a line for each configuration, break-even sizes marked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/cost.h"
#include "chart/chart.h"

namespace amdahl {

struct CostPlot {
  std::string id;
  std::string work;        // the rows' and break-evens' that are drawn
  std::string size_title;  // "Global batch"
};

/// Nothing without a row of that work that has a price.
std::optional<Chart> cost_chart(const CostReport& report, const CostPlot& plot);

}  // namespace amdahl

// Work per hour and work per unit of money over sizes, one line per configuration, with break-even sizes marked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/report.h"
#include "chart/chart.h"

namespace amdahl {

struct CostPlot {
  std::string id;
  std::string work;        // CostRow::work of the rows and break-evens to draw
  std::string size_title;  // "Global batch"
};

/// nullopt without a priced row of that work.
std::optional<Chart> cost_chart(const CostReport& report, const CostPlot& plot);

}  // namespace amdahl

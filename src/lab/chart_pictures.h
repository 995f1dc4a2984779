// Pictures of charts for files that run no script: drawn by vl-convert, in a process of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "chart/chart.h"

namespace amdahl {

struct ChartPictures {
  std::map<std::string, std::string> svg;  // by the chart's id
  std::string why_none;                    // when there is none: why, and what to do
};

/// All charts in one process of the first of `pythons` that has vl_convert; an empty name is the interpreter that this
/// build was made with.
ChartPictures draw_charts(const std::vector<const Chart*>& charts, const std::vector<std::string>& pythons,
                          Deadline deadline);

}  // namespace amdahl

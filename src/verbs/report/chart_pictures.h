// Renders charts as SVG for files without scripts, by vl-convert in a separate process.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "chart/chart.h"

namespace amdahl {

struct ChartPictures {
  std::map<std::string, std::string> svg;  // chart id -> SVG
  std::string why_none;                    // if no picture was drawn: the reason and the remedy
};

/// Renders all charts in one process, with the first interpreter of `pythons` that has vl_convert; an empty name means
/// the interpreter found when this build was configured.
ChartPictures draw_charts(const std::vector<const Chart*>& charts, const std::vector<std::string>& pythons,
                          Deadline deadline);

}  // namespace amdahl

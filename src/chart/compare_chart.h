// Speeds of runs over a baseline's, a dot and its interval for each cell, beside the line of equal speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

struct SpeedDot {
  std::string cell, run;
  double speed = 1;  // over the baseline's
  std::optional<Interval> interval;
  std::string verdict;
  int64_t n_baseline = 0, n_run = 0;
};

struct SpeedPlot {
  std::string id, title, summary;  // of the Chart
  std::vector<SpeedDot> dots;
};

/// Nothing without dots.
std::optional<Chart> compare_chart(const SpeedPlot& plot);

}  // namespace amdahl

// Speed of runs relative to a baseline: one dot with its interval per cell, and the line of equal speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

struct SpeedDot {
  std::string cell, run;
  double speed = 1;  // relative to the baseline
  std::optional<Interval> interval;
  std::string verdict;
  int64_t n_baseline = 0, n_run = 0;
};

struct SpeedPlot {
  std::string id, title, summary;  // fields of the Chart
  std::string baseline = "A";
  std::vector<SpeedDot> dots;
};

/// nullopt without dots.
std::optional<Chart> compare_chart(const SpeedPlot& plot);

}  // namespace amdahl

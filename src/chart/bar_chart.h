// Horizontal bars, stacked where a bar has parts; what bounds a bar is a tick at its place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

struct Bar {
  std::string name;
  std::string part;  // empty: the bar has none
  double value = 0;
  std::optional<Interval> interval;
  std::optional<double> bound;  // the most that is possible, modelled
  int64_t samples = 0;
  Origin origin = Origin::measured;
};

struct BarPlot {
  std::string id, title, summary;  // of the Chart
  TableColumn name, value;
  std::string part_title, interval_title, bound_title;
  bool percent = false;  // the axis ends at 100
  std::vector<Bar> bars;
};

/// Nothing without bars.
std::optional<Chart> bar_chart(const BarPlot& plot);

}  // namespace amdahl

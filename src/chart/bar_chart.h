// Horizontal bars, stacked when they have parts; an upper bound is drawn as a tick.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

struct Bar {
  std::string name;
  std::string part;  // part of a stacked bar; empty: not stacked
  double value = 0;
  std::optional<Interval> interval;
  std::optional<double> bound;  // modelled upper bound of the value
  int64_t samples = 0;
  Origin origin = Origin::measured;
};

struct BarPlot {
  std::string id, title, summary;  // fields of the Chart
  TableColumn name, value;
  std::string part_title, interval_title, bound_title;
  bool percent = false;     // the axis ends at 100
  bool step_parts = false;  // the parts are those of a step, see step_part_scale()
  std::vector<Bar> bars{};
};

/// nullopt without bars.
std::optional<Chart> bar_chart(const BarPlot& plot);

}  // namespace amdahl

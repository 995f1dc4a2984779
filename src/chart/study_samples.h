// All samples of all cells, to show their spread.
#pragma once

#include <optional>
#include <vector>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// The step times of one cell, one value per run, with outlier flags.
struct CellSamples {
  CellKey key;
  Origin origin = Origin::measured;
  double median_us = 0;
  std::vector<double> step_time_us;
  std::vector<bool> outlier;  // parallel to step_time_us
};

/// One row per cell: the step time of each run relative to the cell's median, outliers as crosses. nullopt without
/// samples.
std::optional<Chart> samples_chart(const StudySummary& summary, const StudyGroup& group,
                                   const std::vector<CellSamples>& cells);

}  // namespace amdahl

// Every sample of every cell: how steady the numbers were.
#pragma once

#include <optional>
#include <vector>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// The step times of one cell, a value a run, and which of them are flagged as outliers.
struct CellSamples {
  CellKey key;
  Origin origin = Origin::measured;
  double median_us = 0;
  std::vector<double> step_time_us;
  std::vector<bool> outlier;  // as many
};

/// A row a cell: each run's step time relative to the median of its cell, outliers as crosses. Nothing without samples.
std::optional<Chart> samples_chart(const StudySummary& summary, const StudyGroup& group,
                                   const std::vector<CellSamples>& cells);

}  // namespace amdahl

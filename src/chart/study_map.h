// Speedup of several devices over model size and batch.
#pragma once

#include <vector>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One heat map per device count, scaling mode and math mode with at least two models. When there are several
/// configurations, the fastest is shown.
std::vector<Chart> crossover_maps(const StudySummary& summary);

}  // namespace amdahl

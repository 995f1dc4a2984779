// Where several devices pay: speedup over the model's size and the batch.
#pragma once

#include <vector>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// A heat map for each number of devices, scaling mode and math mode with at least two models. Of several
/// configurations the fastest is shown.
std::vector<Chart> crossover_maps(const StudySummary& summary);

}  // namespace amdahl

// Speedup and efficiency against the number of devices.
#pragma once

#include <optional>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One line per batch with intervals, and the ideal line. nullopt without a comparison in the group.
std::optional<Chart> speedup_chart(const StudySummary& summary, const StudyGroup& group);
/// Like speedup_chart, with speedup divided by the number of devices: 100 % means ideal scaling.
std::optional<Chart> efficiency_chart(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl

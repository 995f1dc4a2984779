// Speedup and efficiency against the number of devices.
#pragma once

#include <optional>
#include <vector>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One chart per batch that was measured under several plans: bars of their step times, the fastest on top.
std::vector<Chart> plan_charts(const StudySummary& summary, const StudyGroup& group);
/// One line per batch with intervals, and the ideal line. nullopt without a comparison in the group, and
/// for several plans of one device count, which plan_charts() shows.
std::optional<Chart> speedup_chart(const StudySummary& summary, const StudyGroup& group);
/// Like speedup_chart, with speedup divided by the number of devices: 100 % means ideal scaling.
std::optional<Chart> efficiency_chart(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl

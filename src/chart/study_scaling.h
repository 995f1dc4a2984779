// Speedup and efficiency against the number of devices.
#pragma once

#include <optional>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// A line a batch with its intervals, and the ideal line. Nothing without a comparison in the group.
std::optional<Chart> speedup_chart(const StudySummary& summary, const StudyGroup& group);
/// The same over the number of devices: 100 % is every device used as well as one alone.
std::optional<Chart> efficiency_chart(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl

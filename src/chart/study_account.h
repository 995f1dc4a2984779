// The step account (how a step's time divides into parts) as stacked bars.
#pragma once

#include <optional>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One panel per batch with its own time axis, and in it one bar per configuration, whose parts add up to the step.
/// nullopt when no cell of the group has an account.
std::optional<Chart> account_chart(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl

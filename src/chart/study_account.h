// Where a step's time goes: the step account as stacked bars.
#pragma once

#include <optional>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// A panel a batch with a time axis of its own, in it a bar a configuration, whose parts add up to the step. Nothing
/// when no cell of the group has an account.
std::optional<Chart> account_chart(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl

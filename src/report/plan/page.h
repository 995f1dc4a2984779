// The page of predicted plans: their ranking, what several devices bring, and the terms of one plan.
#pragma once

#include <string>

#include "amdahl/planner.h"
#include "report/page/page.h"

namespace amdahl {

/// `json`: the outcome, kept in the page.
Page plan_page(const PlanOutcome& outcome, const std::string& json);

/// Heading of intervals: assumed constants have no distribution, so that their range is no confidence interval.
std::string range_title(const Calibration& calibration);
/// "3.27 ms": a time of the planner in its own unit.
std::string time_text(double us);
/// "3.1 ms to 3.4 ms".
std::string interval_text(const Interval& interval);
/// "NVIDIA H200, bf16, host: 12 constants measured, 3 fitted, 2 assumed".
std::string calibration_text(const Calibration& calibration);

}  // namespace amdahl

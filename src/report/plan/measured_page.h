// Predictions beside measured steps: the pages of a calibration, and of plans that were run.
#pragma once

#include <string>
#include <vector>

#include "amdahl/planner.h"
#include "report/page/page.h"

namespace amdahl {

/// `json`: the outcome, kept in the page.
Page calibration_page(const CalibrationOutcome& outcome, const std::string& json);

/// Sets what follows from the measured plans: whether each is inside its interval, terms, median_error and
/// loss_of_choice.
void judge_plans(VerifyOutcome& outcome);
/// The pairs that `plan --verify` stored; its plans have no more than these.
VerifyOutcome verification_in(const std::vector<Record>& records);
Page verification_page(const VerifyOutcome& outcome);
/// The same with the provenance of the records.
Page verification_page(const std::vector<Record>& records);

}  // namespace amdahl

// What the step account may say: its ratio to the measured step, and why percentages are refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// "1.73", accounted over measured step; "n/a" where the measured one is not known.
std::string account_ratio_text(const StepAccount& account);

/// Why no percentages are given: "its account is of a step of 49.5 us, 1.73 times the measured 28.6 us". Empty where
/// the account is trusted.
std::string account_refusal(const StepAccount& account);

/// What a reader of these accounts must know, a statement each: how they were made, whose percentages are refused.
std::vector<std::string> account_remarks(const std::vector<const StudyCell*>& cells);

/// accounted / measured step of a Record, for those who hand its series on; nothing where it lacks either.
std::optional<Series> account_ratio_series(const Record& record);

}  // namespace amdahl

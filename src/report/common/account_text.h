// Texts about step accounts: the ratio to the measured step, and why percentages are withheld.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// "1.73": accounted step / measured step; "n/a" when the measured step is unknown.
std::string account_ratio_text(const StepAccount& account);

/// Why percentages are withheld: "its account is of a step of 49.5 us, 1.73 times the measured 28.6 us". Empty when the
/// account is trusted.
std::string account_refusal(const StepAccount& account);

/// Remarks on these accounts, one per statement: how they were made, and for which percentages are withheld.
std::vector<std::string> account_remarks(const std::vector<const StudyCell*>& cells);

/// accounted / measured step of a Record, for exports; nullopt when it lacks either.
std::optional<Series> account_ratio_series(const Record& record);

}  // namespace amdahl

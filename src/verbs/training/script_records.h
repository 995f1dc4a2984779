// Records of a study from what the ranks of a script report.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "measure/study/step_account.h"
#include "spec/rank_report.h"

namespace amdahl {

/// Rows of a step of all ranks; 0 where a rank does not know its own.
int64_t global_batch_of(const std::vector<RankReport>& ranks);
/// Means over the ranks. Waiting is what the ranks report of all their communications, else the time from a rank's
/// arrival at the last one of a step to that of the last rank; it is at most the rank's exposed communication, from
/// which it is taken.
AccountedStep account_of_reports(const std::vector<RankReport>& ranks);
/// The measurements of one run: the step time is that of the slowest rank.
std::vector<Series> series_of_reports(const std::vector<RankReport>& ranks);
/// Axes that describe the module: model, num_parameters, optimizer, math, launch.
std::map<std::string, AxisValue> axes_of_report(const RankReport& root);

}  // namespace amdahl

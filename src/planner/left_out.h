// How good a fit is on what it has not seen: each group of steps is predicted by a fit to the others.
#pragma once

#include <string>
#include <vector>

#include "amdahl/planner.h"
#include "planner/fit.h"
#include "planner/predict.h"

namespace amdahl {

struct LeftOut {
  std::vector<PlanAccount> accounts;  // predicted, one for each row
  std::vector<double> errors;         // predicted / measured - 1
  double interval_factor = 1;         // with which 95 % of the rows lie in their interval
};
/// `groups` names the group of each row. Fits with the priors of this program's steps.
LeftOut leave_groups_out(const std::vector<FitRow>& rows, const std::vector<std::string>& groups, const Rates& prior);

/// predicted / measured - 1 of each row.
std::vector<double> relative_errors(const std::vector<FitRow>& rows, const Rates& rates);

/// Mean, 95th percentile and worst of the sizes of errors, and their mean with sign.
ErrorSummary summarise_errors(std::string name, const std::vector<double>& errors);

}  // namespace amdahl

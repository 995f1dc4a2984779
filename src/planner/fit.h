// Fits the constants of a machine to measured steps.
#pragma once

#include <optional>
#include <vector>

#include "amdahl/planner.h"
#include "planner/rates.h"
#include "planner/workload.h"

namespace amdahl {

/// Parts of a measured step, in us.
struct FitParts {
  double layers_us = 0;         // compute, sums of tensor parallelism, bubble, gaps between launches
  double communication_us = 0;  // exposed, of dp and pp
  double optimizer_us = 0;
};

/// A measured step. Errors of its parts, relative to the step, count beside that of the step.
struct FitRow {
  Workload work;
  double step_us = 0;
  std::optional<FitParts> parts{};
};
/// The same parts of a predicted step.
FitParts parts_of(const PlanAccount& account);

/// The constants with the least squared error of log(predicted / measured), softened beyond 5 %, plus that of their
/// logarithms to the priors of `rate_fields()`. All rows together count as `kIndependentRows` independent ones, because
/// rows that share a layer's time share its error.
/// `tightness` divides the standard deviations of the priors.
Rates fit_rates(const std::vector<const FitRow*>& rows, const Rates& prior,
                double RateField::*prior_sd = &RateField::prior_sd, double tightness = 1);
inline constexpr double kIndependentRows = 200;

/// Number of constants that `fit_rates` fits.
int num_fitted_constants(double RateField::*prior_sd = &RateField::prior_sd);

/// Factor on predicted standard deviations at which one more row like these lies inside the interval with `confidence`:
/// the element of rank confidence x (n + 1), or the largest.
double interval_factor(const std::vector<double>& log_errors, const std::vector<double>& relative_sds,
                       double confidence);

}  // namespace amdahl

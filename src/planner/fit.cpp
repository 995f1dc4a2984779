#include "planner/fit.h"

#include <algorithm>
#include <cmath>

#include "planner/predict.h"
#include "stats/least_squares.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr double kResidualSd = 0.05;  // beyond it a row counts by its error, not its square

Rates moved(const Rates& prior, const std::vector<double>& logarithms, double RateField::*prior_sd) {
  Rates rates = prior;
  size_t next = 0;
  for (const RateField& field : rate_fields())
    if (field.*prior_sd > 0) rates.*field.member *= std::exp(std::clamp(logarithms[next++], -20.0, 20.0));
  return rates;
}

}  // namespace

int num_fitted_constants(double RateField::*prior_sd) {
  return static_cast<int>(std::count_if(rate_fields().begin(), rate_fields().end(),
                                        [&](const RateField& field) { return field.*prior_sd > 0; }));
}

Rates fit_rates(const std::vector<const FitRow*>& rows, const Rates& prior, double RateField::*prior_sd) {
  const double weight =
      std::sqrt(std::min(1.0, kIndependentRows / static_cast<double>(std::max<size_t>(1, rows.size()))));
  const auto residuals = [&](const std::vector<double>& logarithms) {
    const Rates rates = moved(prior, logarithms, prior_sd);
    std::vector<double> all;
    all.reserve(rows.size() + logarithms.size());
    for (const FitRow* row : rows) {
      const double predicted = account_of(row->work, rates, PipelineMethod::bound).step_us();
      all.push_back(weight * softened(std::log(predicted / row->step_us) / kResidualSd));
    }
    size_t next = 0;
    for (const RateField& field : rate_fields())
      if (field.*prior_sd > 0) all.push_back(logarithms[next++] / field.*prior_sd);
    return all;
  };
  const std::vector<double> start(static_cast<size_t>(num_fitted_constants(prior_sd)));
  return moved(prior, least_squares(residuals, start).parameters, prior_sd);
}

double interval_factor(const std::vector<double>& log_errors, const std::vector<double>& relative_sds,
                       double confidence) {
  std::vector<double> factors;
  for (size_t i = 0; i < log_errors.size(); ++i)
    factors.push_back(std::abs(log_errors[i]) / (kNormal95 * std::max(relative_sds[i], 1e-6)));
  return factors.empty() ? 1 : percentile(std::move(factors), 100 * confidence);
}

}  // namespace amdahl

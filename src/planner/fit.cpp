#include "planner/fit.h"

#include <algorithm>
#include <cmath>

#include "planner/predict.h"
#include "stats/least_squares.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr double kResidualSd = 0.05;  // beyond it a row counts by its error, not its square
constexpr double kPartWeight = 0.5;   // of the error of a part of the step

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

FitParts parts_of(const PlanAccount& account) {
  // A study counts what communication adds to a step, also by slower work, as communication.
  return {account.compute_us - account.slowed_us + account.exposed_tp_us + account.bubble_us + account.gaps_us,
          account.exposed_dp_us + account.slowed_us + account.exposed_pp_us, account.optimizer_us};
}

Rates fit_rates(const std::vector<const FitRow*>& rows, const Rates& prior, double RateField::*prior_sd,
                double tightness) {
  // Steps of this program are medians of several runs; those of other people's clusters are single ones.
  const bool own = prior_sd == &RateField::own_prior_sd;
  const double weight =
      std::sqrt(std::min(1.0, kIndependentRows / static_cast<double>(std::max<size_t>(1, rows.size()))));
  const auto residuals = [&](const std::vector<double>& logarithms) {
    const Rates rates = moved(prior, logarithms, prior_sd);
    std::vector<double> all;
    all.reserve(rows.size() + logarithms.size());
    for (const FitRow* row : rows) {
      const PlanAccount account = account_of(row->work, rates, fit_method(rates));
      const double error = std::log(account.step_us() / row->step_us) / kResidualSd;
      all.push_back(weight * (own ? softened(error) : faded(error)));
      if (!row->parts) continue;
      const FitParts predicted = parts_of(account);
      for (double FitParts::*part : {&FitParts::layers_us, &FitParts::communication_us, &FitParts::optimizer_us})
        all.push_back(weight * kPartWeight *
                      softened((predicted.*part - (*row->parts).*part) / row->step_us / kResidualSd));
    }
    size_t next = 0;
    for (const RateField& field : rate_fields())
      if (field.*prior_sd > 0) all.push_back(logarithms[next++] * tightness / field.*prior_sd);
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
  if (factors.empty()) return 1;
  // One more row exceeds the element of rank r among these n with a chance of 1 - r / (n + 1).
  const auto rank = static_cast<size_t>(std::ceil(confidence * static_cast<double>(factors.size() + 1)));
  std::sort(factors.begin(), factors.end());
  return factors[std::min(rank, factors.size()) - 1];
}

}  // namespace amdahl

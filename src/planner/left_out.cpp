#include "planner/left_out.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "stats/percentile.h"
#include "stats/summary.h"

namespace amdahl {

LeftOut leave_groups_out(const std::vector<FitRow>& rows, const std::vector<std::string>& groups, const Rates& prior) {
  constexpr double kInside = 0.95, kLeastFactor = 1;  // few models do not show that intervals are too wide
  LeftOut out;
  std::map<std::string, Rates> without;
  std::vector<double> logarithms, sds;
  for (size_t i = 0; i < rows.size(); ++i) {
    auto rates = without.find(groups[i]);
    if (rates == without.end()) {
      std::vector<const FitRow*> others;
      for (size_t j = 0; j < rows.size(); ++j)
        if (groups[j] != groups[i]) others.push_back(&rows[j]);
      rates = without.emplace(groups[i], fit_rates(others, prior, &RateField::own_prior_sd)).first;
    }
    out.accounts.push_back(account_of(rows[i].work, rates->second, fit_method(rates->second)));
    const double ratio = out.accounts.back().step_us() / rows[i].step_us;
    out.errors.push_back(ratio - 1);
    logarithms.push_back(std::log(ratio));
    sds.push_back(out.accounts.back().relative_sd);
  }
  out.interval_factor = std::max(kLeastFactor, interval_factor(logarithms, sds, kInside));
  return out;
}

std::vector<double> relative_errors(const std::vector<FitRow>& rows, const Rates& rates) {
  std::vector<double> errors;
  for (const FitRow& row : rows)
    errors.push_back(account_of(row.work, rates, fit_method(rates)).step_us() / row.step_us - 1);
  return errors;
}

ErrorSummary summarise_errors(std::string name, const std::vector<double>& errors) {
  ErrorSummary summary;
  summary.name = std::move(name);
  summary.rows = static_cast<int64_t>(errors.size());
  if (errors.empty()) return summary;
  std::vector<double> sizes;
  for (const double error : errors)
    sizes.push_back(std::abs(error)), summary.bias += error / static_cast<double>(errors.size());
  summary.mean = mean_of(sizes);
  summary.p95 = percentile(sizes, 95);
  summary.worst = *std::max_element(sizes.begin(), sizes.end());
  return summary;
}

}  // namespace amdahl

#include "measure/step_account.h"

#include <algorithm>
#include <limits>

namespace amdahl {
namespace {

constexpr double AccountedStep::*kParts[] = {&AccountedStep::step,        &AccountedStep::forward,
                                             &AccountedStep::backward,    &AccountedStep::compute,
                                             &AccountedStep::waiting,     &AccountedStep::exposed_communication,
                                             &AccountedStep::launch_gaps, &AccountedStep::input,
                                             &AccountedStep::optimizer,   &AccountedStep::total_communication};

}  // namespace

AccountedStep account_step(const std::vector<StepTimes>& times) {
  size_t num_collectives = times.front().collectives.size();
  std::vector<double> shortest(num_collectives, std::numeric_limits<double>::infinity());
  for (const StepTimes& rank : times)
    for (size_t k = 0; k < num_collectives; ++k) shortest[k] = std::min(shortest[k], rank.collectives[k]);

  std::vector<AccountedStep> ranks;
  for (const StepTimes& rank : times) {
    AccountedStep part;
    double stalled = 0;
    for (size_t k = 0; k < num_collectives; ++k) {
      const double stall = std::max(0.0, rank.stalls[k]);
      part.waiting += std::min(stall, rank.collectives[k] - shortest[k]);
      part.total_communication += shortest[k];
      stalled += stall;
    }
    part.step = rank.step;
    part.forward = rank.forward;
    part.backward = rank.backward;
    part.exposed_communication = stalled - part.waiting;
    part.input = rank.input;
    part.optimizer = rank.optimizer;
    part.launch_gaps = std::clamp(rank.idle, 0.0, std::max(0.0, rank.step - stalled - rank.input - rank.optimizer));
    part.compute = rank.step - stalled - rank.input - rank.optimizer - part.launch_gaps;
    ranks.push_back(part);
  }
  return mean_account(ranks);
}

AccountedStep mean_account(const std::vector<AccountedStep>& steps) {
  AccountedStep mean;
  for (const auto part : kParts) {
    for (const AccountedStep& step : steps) mean.*part += step.*part;
    mean.*part /= static_cast<double>(steps.size());
  }
  return mean;
}

}  // namespace amdahl

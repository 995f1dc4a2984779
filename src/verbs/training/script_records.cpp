#include "verbs/training/script_records.h"

#include <algorithm>

#include "stats/summary.h"

namespace amdahl {
namespace {

/// Mean over the steps of the time that the rank waited for later ones, else of that until the last rank arrived at the
/// last communication; 0 where the ranks' steps are not the same.
double waited_us(const std::vector<RankReport>& ranks, const RankAccount& own) {
  if (!own.waits_us.empty()) return mean_of(own.waits_us);
  if (own.arrivals_us.empty()) return 0;
  double waited = 0;
  for (size_t step = 0; step < own.arrivals_us.size(); ++step) {
    double last = own.arrivals_us[step];
    for (const RankReport& rank : ranks) {
      if (!rank.account || rank.account->arrivals_us.size() != own.arrivals_us.size()) return 0;
      last = std::max(last, rank.account->arrivals_us[step]);
    }
    waited += last - own.arrivals_us[step];
  }
  return waited / static_cast<double>(own.arrivals_us.size());
}

}  // namespace

int64_t global_batch_of(const std::vector<RankReport>& ranks) {
  int64_t batch = 0;
  for (const RankReport& rank : ranks) {
    if (rank.samples == 0) return 0;
    batch += rank.samples;
  }
  return batch;
}

AccountedStep account_of_reports(const std::vector<RankReport>& ranks) {
  AccountedStep account;
  const double share = 1 / static_cast<double>(ranks.size());
  for (const RankReport& rank : ranks) {
    if (!rank.account) return {};
    const RankAccount& own = *rank.account;
    const double waiting = std::min(own.exposed_us, waited_us(ranks, own));
    account.step += share * own.parts_us();
    account.forward += share * own.forward_us;
    account.backward += share * own.backward_us;
    account.compute += share * own.compute_us;
    account.exposed_communication += share * (own.exposed_us - waiting);
    account.waiting += share * waiting;
    account.launch_gaps += share * own.launch_gaps_us;
    account.input += share * own.input_us;
    account.optimizer += share * own.optimizer_us;
    account.total_communication += share * own.total_communication_us;
  }
  return account;
}

std::map<std::string, AxisValue> axes_of_report(const RankReport& root) {
  const auto known = [](const std::string& text) { return text.empty() ? std::string("script") : text; };
  return {{"model", known(root.model)},
          {"num_parameters", root.num_parameters},
          {"optimizer", known(root.optimizer)},
          {"math", known(root.math)},
          {"launch", known(root.launch)}};
}

std::vector<Series> series_of_reports(const std::vector<RankReport>& ranks) {
  double step_us = 0, memory = 0;
  for (const RankReport& rank : ranks) {
    step_us = std::max(step_us, rank.window_us / static_cast<double>(rank.steps));
    memory = std::max(memory, rank.memory_peak_bytes.value_or(0));
  }
  std::vector<Series> series{
      {"step_time", "us", {step_us}},
      {"throughput", "samples/s", {static_cast<double>(global_batch_of(ranks)) / step_us * 1e6}}};
  const RankReport& root = ranks.front();
  if (root.loss_first) series.push_back({"loss_first", "1", {*root.loss_first}});
  if (root.loss_last) series.push_back({"loss_last", "1", {*root.loss_last}});
  if (memory > 0) series.push_back({"memory_peak", "bytes", {memory}});
  const AccountedStep account = account_of_reports(ranks);
  if (account.step <= 0) return series;
  series.push_back({"comm_bytes", "bytes", {root.account->comm_bytes}});
  for (Series& part : account_series(account)) series.push_back(std::move(part));
  series.push_back({"account_by_partition", "1", {1}});
  series.push_back({"account_overhead", "percent", {100 * (account.step / step_us - 1)}});
  return series;
}

}  // namespace amdahl

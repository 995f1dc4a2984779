#include "report/study_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/units.h"
#include "base/number_words.h"
#include "chart/study_groups.h"

namespace amdahl {
namespace {

const StudyComparison& best_of(const StudySummary& summary) {
  return *std::max_element(
      summary.comparisons.begin(), summary.comparisons.end(),
      [](const StudyComparison& a, const StudyComparison& b) { return a.test.ratio < b.test.ratio; });
}

bool pays(const StudyComparison& c) { return c.recommendation == Recommendation::multi_device; }

const char* batch_name(const CellKey& key) { return key.scaling == "weak" ? "batch a device" : "global batch"; }

// The batch from which on all comparisons like `best` (its work, devices and configuration) say that several pay; 0
// when it is the smallest measured, or when paying and not paying alternate (then `clear` is false).
int64_t pays_from(const StudySummary& summary, const StudyComparison& best, bool& clear) {
  std::map<int64_t, bool> by_batch;
  for (const StudyComparison& c : summary.comparisons) {
    if (group_of(c.multi) != group_of(best.multi) || c.multi.devices != best.multi.devices) continue;
    by_batch[fixed_batch(c.multi)] |= pays(c);
  }
  int64_t from = 0;
  bool paid = false, first = true;
  clear = true;
  for (const auto& [batch, pay] : by_batch) {
    if (pay && !paid && !first) from = batch;
    if (!pay && paid) clear = false;
    paid = pay;
    first = false;
  }
  clear = clear && paid;
  return from;
}

std::string best_words(const StudyComparison& best) {
  return fmt::format("{:.2f} times as fast as one at {} {} ({})", best.test.ratio, batch_name(best.multi),
                     with_thousands(fixed_batch(best.multi)), best.multi.model);
}

std::string account_fact(const StudySummary& summary, const CellKey& key) {
  for (const StudyCell& cell : summary.cells) {
    if (cell.key != key || !cell.account || cell.account->step_us <= 0) continue;
    const StepAccount& a = *cell.account;
    const double lost = a.exposed_communication_us + a.waiting_us;
    return fmt::format(
        "{}: of that step of {} us is communication in the open or waiting; compute is {} (n = {} run{})",
        format_percent(lost / a.step_us), format_number(a.step_us), format_percent(a.compute_us / a.step_us), a.n,
        a.n == 1 ? "" : "s");
  }
  return {};
}

}  // namespace

std::string study_verdict(const StudySummary& summary) {
  if (summary.comparisons.empty()) return summary.conclusion;
  const DeviceWords words = device_words(summary.device_kind);
  const StudyComparison& best = best_of(summary);
  const auto paying = std::count_if(summary.comparisons.begin(), summary.comparisons.end(), pays);
  const auto total = static_cast<std::ptrdiff_t>(summary.comparisons.size());
  if (paying == 0) {
    const bool unclear = best.recommendation == Recommendation::unclear;
    return fmt::format("{} {}: at best {} {} are {}.",
                       unclear ? "It is not settled whether more pay; stay with one" : "One is enough: stay with one",
                       words.one, best.multi.devices, words.many, best_words(best));
  }
  if (paying == total)
    return fmt::format("Several {} pay in {} measured: {} are up to {}.", words.many,
                       total == 1 ? "the one case" : fmt::format("all {} cases", total), best.multi.devices,
                       best_words(best));
  bool clear = false;
  const int64_t from = pays_from(summary, best, clear);
  if (clear && from > 0)
    return fmt::format("{} {} pay from {} {} on: up to {}. Smaller batches are better off with one.",
                       best.multi.devices, words.many, batch_name(best.multi), with_thousands(from), best_words(best));
  return fmt::format("Several {} pay in {} of {} cases: {} are up to {}.", words.many, paying, total,
                     best.multi.devices, best_words(best));
}

std::vector<std::string> study_facts(const StudySummary& summary) {
  if (summary.comparisons.empty()) return {};
  const DeviceWords words = device_words(summary.device_kind);
  const StudyComparison& best = best_of(summary);
  const auto& ci = best.efficiency_ci;
  std::vector<std::string> facts;
  facts.push_back(fmt::format("{}: {} {} against one, {} {}, 95 % CI, n = {} and {} runs",
                              format_speedup(best.test.ratio, best.test.ci), best.multi.devices, words.many,
                              batch_name(best.multi), with_thousands(fixed_batch(best.multi)), best.test.n_first,
                              best.test.n_second));
  facts.push_back(fmt::format("{}: efficiency there{}; {} loses {} of {} {}", format_percent(best.efficiency),
                              ci ? fmt::format(" [{}, {}]", format_percent(ci->low), format_percent(ci->high)) : "",
                              "coordination", format_number(std::max(0.0, (1 - best.efficiency)) * best.multi.devices),
                              best.multi.devices, words.many));
  if (const std::string account = account_fact(summary, best.multi); !account.empty()) facts.push_back(account);
  return facts;
}

}  // namespace amdahl

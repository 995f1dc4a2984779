#include "report/study/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/study_charts.h"
#include "chart/study_groups.h"
#include "report/common/account_text.h"
#include "report/common/break_even.h"
#include "report/study/break_even.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

const StudyComparison& best_of(const StudySummary& summary) {
  return *std::max_element(
      summary.comparisons.begin(), summary.comparisons.end(),
      [](const StudyComparison& a, const StudyComparison& b) { return a.test.ratio < b.test.ratio; });
}

bool pays(const StudyComparison& c) { return c.recommendation == Recommendation::multi_device; }

const char* batch_name(const CellKey& key) { return key.scaling == "weak" ? "batch per device" : "global batch"; }

std::string best_text(const StudyComparison& best, bool name_model) {
  return fmt::format("{:.2f} times as fast as one at {} {}{}", best.test.ratio, batch_name(best.multi),
                     with_thousands(fixed_batch(best.multi)), name_model ? fmt::format(" ({})", best.multi.model) : "");
}

// The batch at which one and several devices take the same time, for the fastest configuration.
std::string break_even_sentence(const StudySummary& summary, const CellKey& key) {
  for (const auto& [devices, configuration, found] : study_break_evens(summary, group_of(key)))
    if (found.value && devices == key.devices && configuration == break_even_configuration(key))
      return fmt::format(" Both take the same time at global batch {}.", break_even_place(found));
  return {};
}

std::string account_fact(const StudySummary& summary, const CellKey& key) {
  for (const StudyCell& cell : summary.cells) {
    if (cell.key != key || !cell.account || cell.account->step_us <= 0) continue;
    const StepAccount& a = *cell.account;
    const double lost = a.exposed_communication_us + a.waiting_us;
    if (!a.trusted())
      return fmt::format("{} us: measured step there; where it goes is not given in percent: {}",
                         format_number(a.measured_us), account_refusal(a));
    return fmt::format(
        "{}: of that step of {} us is exposed communication or waiting; compute is {} (n = {} run{}; accounted / "
        "measured "
        "step {})",
        format_percent(lost / a.whole_us()), format_number(a.whole_us()), format_percent(a.compute_us / a.whole_us()),
        a.n, a.n == 1 ? "" : "s", account_ratio_text(a));
  }
  return {};
}

}  // namespace

std::string study_verdict(const StudySummary& summary) {
  if (summary.comparisons.empty()) return summary.conclusion;
  std::set<std::string> models;
  for (const StudyComparison& c : summary.comparisons) models.insert(c.multi.model);
  const bool several_models = models.size() > 1;
  const DeviceWords words = device_text(summary.device_kind);
  const StudyComparison& best = best_of(summary);
  const auto paying = std::count_if(summary.comparisons.begin(), summary.comparisons.end(), pays);
  const auto total = static_cast<std::ptrdiff_t>(summary.comparisons.size());
  if (paying == 0) {
    if (best.test.level != TestLevel::none && has_too_few_runs(best.test))
      return fmt::format(
          "Too few runs to say whether several {} are faster ({} and {}, at least {}): at best {} are {}.", words.many,
          best.test.n_first, best.test.n_second, kFewestRuns, best.multi.devices, best_text(best, several_models));
    const bool unclear = best.recommendation == Recommendation::unclear;
    return fmt::format(
        "{} {}: at best {} {} are {}.",
        unclear ? "It is not settled whether more are faster; stay with one" : "One is enough: stay with one",
        words.one, best.multi.devices, words.many, best_text(best, several_models));
  }
  if (paying == total)
    return fmt::format("Several {} are faster in {} measured: {} are up to {}.", words.many,
                       total == 1 ? "the one case" : fmt::format("all {} cases", total), best.multi.devices,
                       best_text(best, several_models));
  const auto from = crossover_batch(summary, group_of(best.multi), best.multi.devices);
  if (from && fixed_batch(best.multi) >= from->from)
    return fmt::format("{}{} {} are faster by {:.0f} % or more at {}: up to {}.{} Below that, use one.",
                       several_models ? fmt::format("For {}, ", best.multi.model) : "", best.multi.devices, words.many,
                       100 * (kMultiBeneficial - 1), crossover_text(*from, batch_name(best.multi)),
                       best_text(best, false), break_even_sentence(summary, best.multi));
  return fmt::format("Several {} are faster in {} of {} cases: {} are up to {}.", words.many, paying, total,
                     best.multi.devices, best_text(best, several_models));
}

std::vector<std::string> study_facts(const StudySummary& summary) {
  if (summary.comparisons.empty()) return {};
  const DeviceWords words = device_text(summary.device_kind);
  const StudyComparison& best = best_of(summary);
  const auto& ci = best.efficiency_ci;
  std::vector<std::string> facts;
  facts.push_back(fmt::format("{}: {} {} against one, {} {}, 95 % CI, n = {} and {} runs",
                              format_speedup(best.test.ratio, best.test.ci), best.multi.devices, words.many,
                              batch_name(best.multi), with_thousands(fixed_batch(best.multi)), best.test.n_first,
                              best.test.n_second));
  facts.push_back(fmt::format("{:.1f} %: efficiency there{}; coordination costs {} of {} {}", 100 * best.efficiency,
                              ci ? fmt::format(", 95 % CI [{:.1f}, {:.1f}] %", 100 * ci->low, 100 * ci->high) : "",
                              format_number(std::max(0.0, (1 - best.efficiency)) * best.multi.devices),
                              best.multi.devices, words.many));
  if (const std::string account = account_fact(summary, best.multi); !account.empty()) facts.push_back(account);
  return facts;
}

}  // namespace amdahl

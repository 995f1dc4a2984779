#include "report/common/account_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

// Names of the cells: the first few in full, then a count.
std::string cells_named(const std::vector<const StudyCell*>& cells) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> names;
  for (const StudyCell* cell : cells) {
    if (names.size() == kNamed) break;
    names.push_back(format_cell(cell->key));
  }
  const size_t rest = cells.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, "; "), rest > 0 ? fmt::format("; and {} more", rest) : "");
}

template <typename Wanted>
std::vector<const StudyCell*> those(const std::vector<const StudyCell*>& cells, Wanted wanted) {
  std::vector<const StudyCell*> found;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(found),
               [&](const StudyCell* cell) { return cell->account && wanted(*cell->account); });
  return found;
}

}  // namespace

std::string account_ratio_text(const StepAccount& account) {
  return account.measured_us > 0 ? fmt::format("{:.3f}", account.ratio()) : "n/a";
}

std::string account_refusal(const StepAccount& account) {
  if (account.trusted()) return {};
  return fmt::format("its account is of a step of {} us, {} times the measured {} us", format_number(account.step_us),
                     account_ratio_text(account), format_number(account.measured_us));
}

std::vector<std::string> account_remarks(const std::vector<const StudyCell*>& cells) {
  std::vector<std::string> remarks;
  const auto by = [&](AccountMethod method) {
    return those(cells, [&](const StepAccount& a) { return a.method == method; });
  };
  const auto differences = by(AccountMethod::differences), stamps = by(AccountMethod::stamps),
             partition = by(AccountMethod::partition);
  const auto floors = those(cells, [](const StepAccount& a) { return a.launch_kernels > 0; });
  const auto fused = those(cells, [](const StepAccount& a) { return a.fused_update; });
  if (!differences.empty())
    remarks.emplace_back(
        "The account is by differences of steps with parts left out, each timed as the measured step is; the sum of "
        "forward and backward is compute, and launch gaps lie in neither.");
  if (!partition.empty())
    remarks.emplace_back(
        "The account divides the time of steps after the timed ones: each moment is in one part. Forward and backward "
        "may hold communication and launch gaps, and are no parts of the sum.");
  if (!stamps.empty())
    remarks.push_back(fmt::format(
        "{} by time stamps inside the step, which lengthen it; forward and backward then hold launch gaps, and are no "
        "parts of compute.",
        differences.empty() ? "The account is" : fmt::format("Of {} the account is", cells_named(stamps))));
  if (!floors.empty())
    remarks.emplace_back(
        "Launch floor: measured with as many empty kernels as the step has, one after the other in a replayed graph. "
        "It "
        "is no part of the sum: kernels of a step are launched while earlier ones run.");
  if (!fused.empty())
    remarks.push_back(
        fmt::format("Backward updates parameters too on {}: optimizer is what the update adds to the step there.",
                    cells_named(fused)));
  constexpr size_t kEachNamed = 2;
  const auto refused = those(cells, [](const StepAccount& a) { return !a.trusted(); });
  if (refused.size() > kEachNamed) {
    const auto distance = [](const StudyCell* cell) { return std::abs(std::log(cell->account->ratio())); };
    const StudyCell* worst = *std::max_element(refused.begin(), refused.end(),
                                               [&](const auto* a, const auto* b) { return distance(a) < distance(b); });
    remarks.push_back(fmt::format(
        "No percentages for {} of {} cells, whose account differs from the measured step by more than {:.0f} %: the "
        "table of step accounts has every ratio. Most for {}: {}.",
        refused.size(), cells.size(), 100 * kAccountTolerance, format_cell(worst->key),
        account_refusal(*worst->account)));
    return remarks;
  }
  for (const StudyCell* cell : refused)
    remarks.push_back(
        fmt::format("No percentages for {}: {}.", format_cell(cell->key), account_refusal(*cell->account)));
  return remarks;
}

std::optional<Series> account_ratio_series(const Record& record) {
  const auto accounted = record.value("account_step"), measured = record.value("step_time");
  if (!accounted || !measured || !(*measured > 0)) return std::nullopt;
  return Series{"account_ratio", "1", {*accounted / *measured}};
}

}  // namespace amdahl

#include "report/study/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "amdahl/error.h"
#include "report/common/baseline.h"
#include "report/common/words.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

constexpr long kMuchPercent = 20;       // share of the step, in whole percent as printed
constexpr double kMostlyExposed = 0.5;  // share of all communication
constexpr double kMostlyFixed = 0.5;    // share of the step

Finding notice(const char* name, std::string where) {
  Finding finding;
  finding.name = name;
  finding.severity = Finding::Severity::notice;
  finding.where = std::move(where);
  return finding;
}

bool is_judged(const StudyCell& cell) { return cell.key.devices > 1 && cell.status.kind == Status::Kind::ok; }

long exposed_percent(const StepAccount& account) {
  return std::lround(100 * account.exposed_communication_us / account.whole_us());
}

Finding data_parallel(const StudyCell& cell) {
  Finding finding = notice("data-parallel", format_cell(cell.key));
  finding.measured = "strategy dp (DataParallel), which gathers gradients on one device";
  finding.expected = "ddp, which spreads them over all";
  finding.why = "the one device's links and its update are what the others wait for";
  finding.remedy = "`strategy=ddp`";
  return finding;
}

void judge_communication(const StudyCell& cell, std::vector<Finding>& found) {
  const StepAccount& account = *cell.account;
  const long percent = exposed_percent(account);
  if (percent <= kMuchPercent) return;
  Finding much = notice("much-communication", format_cell(cell.key));
  much.measured = fmt::format("exposed communication is {} % of the step", percent);
  much.expected = fmt::format("at most {} %", kMuchPercent);
  much.why = "devices wait for data instead of computing";
  much.remedy = "a larger batch per device has less of it per sample";
  found.push_back(std::move(much));
  // The account by differences times the two separately, so exposed can exceed total.
  const double exposed = std::min(1.0, account.exposed_communication_us / account.total_communication_us);
  if (!(exposed > kMostlyExposed)) return;
  Finding overlap = notice("missing-overlap", format_cell(cell.key));
  overlap.measured = fmt::format("{:.0f} % of the communication does not overlap with backward", 100 * exposed);
  overlap.expected = fmt::format("at most {:.0f} %", 100 * kMostlyExposed);
  overlap.why = cell.key.plan.overlap ? "backward ends before the gradients have been sent" : "overlap is off";
  overlap.remedy = cell.key.plan.overlap ? "larger batches per device, or fewer bytes" : "leave out `overlap=false`";
  found.push_back(std::move(overlap));
}

// ---- steps of the user's scripts ----

struct LostPart {
  const char* name;
  double StepAccount::*us;
  const char *on_gpu, *on_cpu;  // what the time is
  const char *gpu_remedy, *cpu_remedy;
};
constexpr LostPart kLostParts[] = {
    {"launch-gaps", &StepAccount::launch_gaps_us, "launch gaps: the GPU has no work while the host prepares it",
     "work of the host between the operations", "capture the step as a CUDA graph, or torch.compile it",
     "leave out of the step what it does not need: logging, .item(), copies"},
    {"slow-input", &StepAccount::input_us, "waiting for the next batch", "waiting for the next batch",
     "more DataLoader workers with pin_memory, or batches prepared beforehand",
     "more DataLoader workers, or batches prepared beforehand"},
    {"unequal-ranks", &StepAccount::waiting_us, "waiting for the slowest rank", "waiting for the slowest rank",
     "equal work on every rank; amdahl doctor, if it is always the same one",
     "equal work on every rank; amdahl doctor, if it is always the same one"},
    {"exposed-communication", &StepAccount::exposed_communication_us, "communication that no computing hides",
     "communication that no computing hides",
     "a larger batch per device, gradient accumulation with no_sync, or gradients in bf16",
     "a larger batch per process, or gradient accumulation with no_sync"}};

/// The largest lost part of a script's step, if it is much.
void judge_script(const StudyCell& cell, std::vector<Finding>& found) {
  const StepAccount& account = *cell.account;
  const LostPart* worst =
      std::max_element(std::begin(kLostParts), std::end(kLostParts),
                       [&](const LostPart& a, const LostPart& b) { return account.*a.us < account.*b.us; });
  const double lost = account.*worst->us, whole = account.whole_us();
  if (std::lround(100 * lost / whole) <= kMuchPercent || lost >= whole) return;
  const bool on_gpu = cell.key.backend == "cuda";
  Finding finding = notice(worst->name, format_cell(cell.key));
  finding.measured = fmt::format("{} of {} are {}", format_duration(lost / 1e6), format_duration(whole / 1e6),
                                 on_gpu ? worst->on_gpu : worst->on_cpu);
  finding.expected = fmt::format("at most {} %", kMuchPercent);
  finding.why = fmt::format("without them the step is {:.1f}x as fast", whole / (whole - lost));
  finding.remedy = on_gpu ? worst->gpu_remedy : worst->cpu_remedy;
  found.push_back(std::move(finding));
}

// ---- small batches ----

std::string finding_work(const CellKey& key) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", key.model, key.num_parameters, key.math, key.launch, key.backend,
                     key.optimizer, key.data);
}

/// The fastest one-device cell with that batch and the compute settings of each device of `multi`.
const StudyCell* one_device_cell(const StudySummary& summary, const CellKey& multi, int64_t batch) {
  std::vector<BaselineCandidate> candidates;
  for (const StudyCell& cell : summary.cells) {
    const CellKey& key = cell.key;
    const bool is_alone = key.devices == 1 && key.plan.accumulate == 1 && cell.step_time_us.n > 0;
    candidates.push_back(
        {is_alone, finding_work(key), key.global_batch, "", "", is_alone ? cell.throughput().value : 0});
  }
  const auto best = find_baseline(candidates, {finding_work(multi), batch});
  return best ? &summary.cells[*best] : nullptr;
}

/// Ratio of the one-device throughputs at twice the batch per device and at that batch; nullopt without an interval.
std::optional<Estimate> gain_of_doubling(const StudySummary& summary, const CellKey& multi) {
  const int64_t batch = multi.device_batch();
  if (multi.plan.accumulate != 1 || multi.devices * batch != multi.global_batch) return std::nullopt;
  const StudyCell *once = one_device_cell(summary, multi, batch), *twice = one_device_cell(summary, multi, 2 * batch);
  if (!once || !twice) return std::nullopt;
  const Estimate gain = ratio_of(twice->throughput(), once->throughput());
  if (!gain.ci) return std::nullopt;
  return gain;
}

/// Share f of the step at batch b that does not depend on the batch: T(2b) / T(b) = 2 - f = 2 / gain.
double fixed_share(double gain) { return std::clamp(2 - 2 / gain, 0.0, 1.0); }

struct SmallBatches {
  CellKey key;                        // key of the largest batch
  std::map<int64_t, Estimate> gains;  // by batch per device
};

Finding small_batch(const SmallBatches& small) {
  std::vector<std::string> batches;
  for (const auto& [batch, gain] : small.gains) batches.push_back(with_thousands(batch));
  const auto& [largest, gain] = *small.gains.rbegin();
  Finding finding =
      notice("small-batch", fmt::format("{}, {} parameters, {} scaling, {}, {} devices, {}", small.key.model,
                                        with_thousands(small.key.num_parameters), small.key.scaling, small.key.math,
                                        small.key.devices, configuration_text(small.key)));
  finding.measured = fmt::format(
      "batch{} of {} per device; on one device {} instead of {} gives {} the samples/s, so {:.0f} % of the step does "
      "not depend on the batch",
      batches.size() == 1 ? "" : "es", fmt::join(batches, ", "), with_thousands(2 * largest), with_thousands(largest),
      format_speedup(gain.value, gain.ci), 100 * fixed_share(gain.value));
  finding.expected = fmt::format("at most {:.0f} %", 100 * kMostlyFixed);
  finding.why = "launches and latency fill the step of each device, which more devices do not divide";
  finding.remedy = "a larger batch per device, or fewer devices";
  return finding;
}

/// Whether any cell could be judged.
bool judge_batches(const StudySummary& summary, std::vector<Finding>& found) {
  bool any = false;
  std::map<CellKey, SmallBatches> small;  // by configuration
  for (const StudyCell& cell : summary.cells) {
    if (!is_judged(cell)) continue;
    const std::optional<Estimate> gain = gain_of_doubling(summary, cell.key);
    if (!gain) continue;
    any = true;
    if (fixed_share(gain->ci->low) <= kMostlyFixed) continue;
    CellKey configuration = cell.key;
    configuration.global_batch = 0;
    SmallBatches& batches = small[configuration];
    batches.key = cell.key;
    batches.gains.emplace(cell.key.device_batch(), *gain);
  }
  for (const auto& [configuration, batches] : small) found.push_back(small_batch(batches));
  return any;
}

}  // namespace

TrainingFindings training_findings(const StudySummary& summary) {
  TrainingFindings findings;
  bool several = false, accounts = false, scripts = false;
  for (const StudyCell& cell : summary.cells) {
    const bool accounted = cell.account && cell.account->trusted();
    if (accounted && cell.account->method == AccountMethod::partition) {
      scripts = true;
      judge_script(cell, findings.found);
      continue;
    }
    if (!is_judged(cell)) continue;
    several = true;
    if (cell.key.strategy == "dp") findings.found.push_back(data_parallel(cell));
    if (!accounted) continue;
    accounts = true;
    judge_communication(cell, findings.found);
  }
  if (scripts)
    for (const LostPart& part : kLostParts) findings.checked.emplace_back(part.name);
  if (several) findings.checked.emplace_back("data-parallel");
  if (accounts) findings.checked.insert(findings.checked.end(), {"much-communication", "missing-overlap"});
  if (judge_batches(summary, findings.found)) findings.checked.emplace_back("small-batch");
  for (Finding& finding : findings.found) finding.remedy = named(finding.remedy);
  return findings;
}

std::vector<std::string> study_findings(const StudySummary& summary) {
  const std::vector<Finding> found = training_findings(summary).found;
  std::map<std::string, size_t> counts;
  for (const Finding& finding : found) ++counts[finding.name];
  std::vector<std::string> lines;
  std::set<std::string> named;
  for (const Finding& finding : found) {
    if (!named.insert(finding.name).second) continue;
    const size_t more = counts[finding.name] - 1;
    lines.push_back(fmt::format(
        "{}: {} (expected {}): {}; {}{}", finding.where, finding.measured, finding.expected, finding.why,
        finding.remedy, more == 0 ? "" : fmt::format("; likewise in {} more cell{}", more, more == 1 ? "" : "s")));
  }
  return lines;
}

std::string communication_target_line(const StudySummary& summary) {
  std::vector<long> met;
  std::vector<std::string> missed;
  for (const StudyCell& cell : summary.cells) {
    if (!is_judged(cell) || !cell.account || cell.account->step_us <= 0 || !cell.account->trusted()) continue;
    const long percent = exposed_percent(*cell.account);
    if (percent <= kMuchPercent)
      met.push_back(percent);
    else
      missed.push_back(fmt::format("{} at batch {} on {} devices ({} %)", cell.key.strategy,
                                   with_thousands(cell.key.global_batch), cell.key.devices, percent));
  }
  const size_t all = met.size() + missed.size();
  if (all == 0) return {};
  std::string line =
      fmt::format("communication target, at most {} % of the step exposed: met by {} of {} cell{} on several devices",
                  kMuchPercent, met.size(), all, all == 1 ? "" : "s");
  if (!met.empty()) {
    const auto [least, most] = std::minmax_element(met.begin(), met.end());
    line += *least == *most ? fmt::format(" ({} %)", *least) : fmt::format(" ({} to {} %)", *least, *most);
  }
  return missed.empty() ? line : line + fmt::format("; missed by {}", fmt::join(missed, ", "));
}

}  // namespace amdahl

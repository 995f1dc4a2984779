#include "report/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "amdahl/units.h"
#include "report/words.h"
#include "spec/run_folder.h"
#include "stats/compare.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

// All runs of one cell; samples of a series are parallel to `ok`.
struct CellRuns {
  std::vector<const Record*> ok;
  std::vector<const Record*> others;  // failed or waived
  std::vector<double> step_time_us;
  std::vector<double> throughput;
};

using Cells = std::map<CellKey, CellRuns>;

constexpr int64_t kLargestCount = int64_t{1} << 62, kMostDevices = 1 << 20;

template <typename T>
T axis(const Record& record, const char* name, bool required) {
  const auto found = record.axes.find(name);
  if (found != record.axes.end())
    if (const T* value = std::get_if<T>(&found->second)) return *value;
  if (!required && found == record.axes.end()) return T{};
  throw damaged_record(
      record,
      fmt::format("{} axis '{}'", found == record.axes.end() ? "lacks" : "has a value of another type in", name));
}

// A count that can be one: later arithmetic relies on it.
int64_t count_axis(const Record& record, const char* name, int64_t minimum, int64_t maximum, bool required) {
  const int64_t count = axis<int64_t>(record, name, required);
  if (count == 0 && !required) return 0;
  if (count < minimum || count > maximum)
    throw damaged_record(record, fmt::format("has {} in axis '{}', which counts from {}", count, name, minimum));
  return count;
}

double required_value(const Record& record, const char* series) {
  const auto value = record.value(series);
  if (!value) throw damaged_record(record, fmt::format("is ok and lacks a value of '{}'", series));
  require_speed(record, series, *value);
  return *value;
}

std::vector<double> values_of(const std::vector<const Record*>& records, const char* series) {
  std::vector<double> values;
  for (const Record* record : records)
    if (const auto value = record->value(series)) values.push_back(*value);
  return values;
}

std::optional<double> mean_value(const std::vector<const Record*>& records, const char* series) {
  const std::vector<double> values = values_of(records, series);
  if (values.empty()) return std::nullopt;
  return mean_of(values);
}

std::optional<StepAccount> account_of(const std::vector<const Record*>& records) {
  const std::vector<double> steps = values_of(records, "account_step");
  if (steps.empty()) return std::nullopt;
  const auto mean = [&](const char* series) { return mean_value(records, series).value_or(0.0); };
  StepAccount account;
  account.n = static_cast<int64_t>(steps.size());
  account.step_us = mean_of(steps);
  account.forward_us = mean("forward");
  account.backward_us = mean("backward");
  account.compute_us = mean("compute");
  account.exposed_communication_us = mean("exposed_communication");
  account.waiting_us = mean("waiting");
  account.launch_gaps_us = mean("launch_gaps");
  account.input_us = mean("input");
  account.optimizer_us = mean("optimizer");
  account.total_communication_us = mean("total_communication");
  account.comm_bytes = mean("comm_bytes");
  return account;
}

StudyCell cell_of(const CellKey& key, const CellRuns& runs) {
  StudyCell cell;
  cell.key = key;
  const Record& any = runs.ok.empty() ? *runs.others.front() : *runs.ok.front();
  cell.origin = any.origin;
  cell.steps = axis<int64_t>(any, "steps", false);
  cell.warmup = axis<int64_t>(any, "warmup", false);
  for (const Record* record : runs.others)
    ++(record->status.kind == Status::Kind::waived ? cell.num_waived : cell.num_failed);
  if (runs.ok.empty()) {
    cell.status = any.status;
    return cell;
  }
  cell.step_time_us = summarise(runs.step_time_us);
  cell.throughput = summarise(runs.throughput);
  if (const std::vector<double> peaks = values_of(runs.ok, "memory_peak"); !peaks.empty())
    cell.memory_peak_bytes = *std::max_element(peaks.begin(), peaks.end());
  cell.utilisation_percent = mean_value(runs.ok, "utilisation");
  cell.loss_first = mean_value(runs.ok, "loss_first");
  cell.loss_last = mean_value(runs.ok, "loss_last");
  cell.account = account_of(runs.ok);
  return cell;
}

// One name per distinct value, for the refusal to pool what is not alike.
void require_alike(const std::set<std::string>& values, std::string_view what, bool allowed, StudySummary& summary) {
  if (values.size() < 2) return;
  const std::string difference = fmt::format("{} differ: {}", what, fmt::join(values, "; "));
  if (!allowed)
    throw Error(Cause::usage, fmt::format("these records cannot be pooled into one study: {}", difference),
                "one run folder per machine, and `amdahl compare` between them");
  summary.notes.push_back(difference + " (pooled because the caller allowed it)");
}

Cells pool(const std::vector<Record>& records, const StudyOptions& options, StudySummary& summary) {
  Cells cells;
  std::set<std::string> kinds, hosts, names;
  std::set<std::pair<CellKey, int64_t>> runs_seen;
  for (const Record& record : records) {
    if (record.kind != "study-run") continue;
    kinds.insert(record.provenance.device_kind);
    hosts.insert(record.provenance.host);
    names.insert(device_names_of(record.provenance));
    const CellKey key = cell_key_of(record);
    CellRuns& runs = cells[key];
    if (record.status.kind != Status::Kind::ok) {
      runs.others.push_back(&record);
      continue;
    }
    const int64_t run = axis<int64_t>(record, "run", true);
    if (!runs_seen.insert({key, run}).second)
      throw damaged_record(record, fmt::format("is run {} of {}, which is there already", run, cell_words(key)));
    runs.ok.push_back(&record);
    runs.step_time_us.push_back(required_value(record, "step_time"));
    runs.throughput.push_back(required_value(record, "throughput"));
  }
  require_alike(kinds, "device kinds", false, summary);
  require_alike(hosts, "hosts", options.allow_several_hosts, summary);
  require_alike(names, "device names", options.allow_several_hosts, summary);
  if (!kinds.empty()) summary.device_kind = *kinds.begin();
  return cells;
}

void note_missing_runs(const Cells& cells, StudySummary& summary) {
  for (const auto& [key, runs] : cells) {
    std::map<std::pair<Status::Kind, std::string>, int> reasons;
    for (const Record* record : runs.others) ++reasons[{record->status.kind, record->status.reason}];
    for (const auto& [reason, count] : reasons)
      summary.notes.push_back(fmt::format("{}: {} of {} run{} {}: {}", cell_words(key), count,
                                          runs.ok.size() + runs.others.size(),
                                          runs.ok.size() + runs.others.size() == 1 ? "" : "s",
                                          reason.first == Status::Kind::waived ? "waived" : "failed",
                                          reason.second.empty() ? "no reason recorded" : reason.second));
  }
}

// Flags the cells during whose runs the card did not stay the same.
void note_card_state(const Cells& cells, StudySummary& summary) {
  for (const auto& [key, runs] : cells) {
    double lowest = 0, highest = 0;
    int throttled = 0;
    for (const Record* record : runs.ok) {
      if (const auto clock = record->value("sm_clock")) {
        lowest = lowest == 0 ? *clock : std::min(lowest, *clock);
        highest = std::max(highest, *clock);
      }
      const auto reasons = record->value("throttle_reasons");
      throttled += reasons && was_throttled(*reasons);
    }
    if (lowest > 0 && highest > lowest * (1 + kClockTolerance))
      summary.notes.push_back(fmt::format("{}: the SM clock moved between {:.0f} and {:.0f} MHz over its runs",
                                          cell_words(key), lowest, highest));
    if (throttled > 0)
      summary.notes.push_back(
          fmt::format("{}: the card was throttled in {} of {} runs", cell_words(key), throttled, runs.ok.size()));
  }
}

// The best one-device cell that does the same work: strong scaling, the same global batch; weak, the same device batch.
// One device is the same configuration under either name of the scaling mode; the cell's own mode is preferred.
const std::pair<const CellKey, CellRuns>* best_single(const Cells& cells, const CellKey& multi) {
  const int64_t batch = multi.scaling == "weak" ? multi.device_batch() : multi.global_batch;
  const std::pair<const CellKey, CellRuns>* best = nullptr;
  for (const auto& candidate : cells) {
    const CellKey& key = candidate.first;
    if (key.devices != 1 || key.global_batch != batch || key.model != multi.model || candidate.second.ok.empty() ||
        key.num_parameters != multi.num_parameters || key.math != multi.math || key.data != multi.data ||
        key.optimizer != multi.optimizer || key.backend != multi.backend)
      continue;
    const bool own_mode = key.scaling == multi.scaling;
    const bool best_own_mode = best && best->first.scaling == multi.scaling;
    if (!best || (own_mode && !best_own_mode) ||
        (own_mode == best_own_mode && mean_of(candidate.second.step_time_us) < mean_of(best->second.step_time_us)))
      best = &candidate;
  }
  return best;
}

struct Match {
  const std::pair<const CellKey, CellRuns>* single;
  const std::pair<const CellKey, CellRuns>* multi;
};

// Strong scaling compares step times, T1 / Tn; weak scaling throughputs, since the batches differ.
PairSamples samples_of(const Match& match) {
  if (match.multi->first.scaling == "weak")
    return {match.multi->second.throughput, match.single->second.throughput, Direction::larger_is_faster};
  return {match.multi->second.step_time_us, match.single->second.step_time_us, Direction::smaller_is_faster};
}

std::vector<Match> match_cells(const Cells& cells, StudySummary& summary) {
  std::vector<Match> matches;
  for (const auto& cell : cells) {
    if (cell.first.devices < 2 || cell.second.ok.empty()) continue;
    if (const auto* single = best_single(cells, cell.first))
      matches.push_back({single, &cell});
    else
      summary.notes.push_back(
          fmt::format("{}: no one-device cell of the same batch was measured, so no speedup", cell_words(cell.first)));
  }
  return matches;
}

void compare_cells(const std::vector<Match>& matches, const StudyOptions& options, StudySummary& summary) {
  std::vector<PairSamples> grid;
  for (const Match& match : matches) grid.push_back(samples_of(match));
  const std::vector<PairTest> tests = test_grid(grid, options.bootstrap);
  for (size_t i = 0; i < matches.size(); ++i) {
    StudyComparison c;
    c.single = matches[i].single->first;
    c.multi = matches[i].multi->first;
    c.test = tests[i];
    const double devices = static_cast<double>(c.multi.devices);
    c.efficiency = c.test.ratio / devices;
    if (c.test.ci) c.efficiency_ci = Interval{c.test.ci->low / devices, c.test.ci->high / devices};
    c.recommendation = recommend(c.test.ci);
    const int64_t n = std::min(c.test.n_first, c.test.n_second);
    c.test.more_runs = std::max(c.test.more_runs, runs_to_recommend(c.test.ratio, c.test.ci, n));
    summary.comparisons.push_back(c);
  }
}

void average_speedups(const std::vector<Match>& matches, const StudyOptions& options, StudySummary& summary) {
  std::map<CellKey, std::vector<size_t>> groups;  // key without its batch
  for (size_t i = 0; i < matches.size(); ++i) {
    CellKey group = matches[i].multi->first;
    group.global_batch = 0;
    groups[group].push_back(i);
  }
  for (const auto& [key, members] : groups) {
    AverageSpeedup average;
    average.model = key.model;
    average.scaling = key.scaling;
    average.math = key.math;
    average.strategy = key.strategy;
    average.launch = key.launch;
    average.devices = key.devices;
    average.num_batches = static_cast<int64_t>(members.size());
    std::vector<SamplePair> pairs;
    double log_sum = 0;
    bool multi = false, single = false;
    for (size_t i : members) {
      multi |= summary.comparisons[i].recommendation == Recommendation::multi_device;
      single |= summary.comparisons[i].recommendation == Recommendation::single_device;
      const PairSamples samples = samples_of(matches[i]);
      const bool larger = samples.direction == Direction::larger_is_faster;
      pairs.push_back({larger ? samples.first : samples.second, larger ? samples.second : samples.first});
      const double ratio = summary.comparisons[i].test.ratio;
      log_sum += ratio > 0 ? std::log(ratio) : 0;
    }
    average.geometric_mean = std::exp(log_sum / static_cast<double>(members.size()));
    average.ci = bootstrap_geometric_mean(pairs, options.bootstrap);
    average.batches_disagree = multi && single;
    if (!average.batches_disagree) average.recommendation = recommend(average.ci);
    summary.averages.push_back(average);
  }
}

std::string conclude(const StudySummary& summary) {
  const size_t total = summary.comparisons.size();
  if (total == 0)
    return fmt::format("Nothing to decide: no cell on several {} has a one-device baseline.",
                       device_words(summary.device_kind).many);
  size_t counts[4] = {};
  for (const StudyComparison& c : summary.comparisons) ++counts[static_cast<size_t>(c.recommendation)];
  std::vector<std::string> parts;
  for (Recommendation r : {Recommendation::multi_device, Recommendation::single_device, Recommendation::marginal,
                           Recommendation::unclear}) {
    const size_t count = counts[static_cast<size_t>(r)];
    if (count == 0) continue;
    const std::string words = recommendation_words(r, summary.device_kind);
    if (count < total)
      parts.push_back(fmt::format("{} in {} of {} comparisons", words, count, total));
    else
      parts.push_back(total == 1 ? words + " in the one comparison"
                                 : fmt::format("{} in all {} comparisons", words, total));
  }
  std::string text = fmt::format("{}.", fmt::join(parts, ", "));
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  const auto empty = std::count_if(summary.cells.begin(), summary.cells.end(),
                                   [](const StudyCell& cell) { return cell.status.kind != Status::Kind::ok; });
  if (empty > 0) text += fmt::format(" {} cell{} gave no result.", empty, empty == 1 ? "" : "s");
  return text;
}

void collect_provenance(const std::vector<Record>& records, StudySummary& summary) {
  for (const Record& record : records) {
    if (record.kind != "study-run") continue;
    const bool known = std::any_of(summary.provenance.begin(), summary.provenance.end(), [&](Provenance p) {
      p.start_time = record.provenance.start_time;
      return p == record.provenance;
    });
    if (!known) summary.provenance.push_back(record.provenance);
  }
}

}  // namespace

Error damaged_record(const Record& record, const std::string& problem) {
  const std::string place = record.source.empty() ? "" : record.source + ": ";
  return {Cause::store_corrupt, fmt::format("{}a {} record {}", place, printable(record.kind, 40), problem),
          kDamagedLineRemedy};
}

void require_speed(const Record& record, const std::string& series, double sample) {
  constexpr double kSmallest = 1e-100;  // ratios of such samples are still numbers
  if (sample >= kSmallest && std::isfinite(sample)) return;
  throw damaged_record(record, fmt::format("has {} in '{}', which is positive when measured", sample, series));
}

CellKey cell_key_of(const Record& record) {
  const bool required =
      record.status.kind == Status::Kind::ok;  // a cell that failed early may not know all of its axes
  CellKey key;
  key.model = axis<std::string>(record, "model", true);
  key.num_parameters = count_axis(record, "num_parameters", 0, kLargestCount, required);
  key.scaling = axis<std::string>(record, "scaling", required);
  key.math = axis<std::string>(record, "math", required);
  key.global_batch = count_axis(record, "global_batch", 1, kLargestCount, required);
  key.devices = count_axis(record, "devices", 1, kMostDevices, true);
  key.strategy = axis<std::string>(record, "strategy", required);
  key.launch = axis<std::string>(record, "launch", required);
  key.backend = axis<std::string>(record, "backend", required);
  key.optimizer = axis<std::string>(record, "optimizer", required);
  key.accumulate = count_axis(record, "accumulate", 1, kLargestCount, required);
  key.overlap = axis<bool>(record, "overlap", required);
  key.bucket_bytes = count_axis(record, "bucket_bytes", 0, kLargestCount, required);
  key.data = axis<std::string>(record, "data", required);
  return key;
}

std::string device_names_of(const Provenance& provenance) {
  std::set<std::string> names;
  for (const auto& [fact, value] : provenance.facts) {
    if (fact != "device" && fact != "devices" && !fact.starts_with("device.")) continue;
    const std::string rest = fact.substr(std::min(fact.find_first_not_of("0123456789", 7), fact.size()));
    if (fact.starts_with("device.") && !rest.empty() && rest != ".name") continue;  // uuid, compute capability
    // "CPU virtual device 1" is the same kind of device as number 0.
    const size_t end = provenance.device_kind == "cpu-virtual" ? value.find_last_not_of("0123456789 ") : value.size();
    names.insert(value.substr(0, end == std::string::npos ? end : end + 1));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

StudySummary summarise_study(const std::vector<Record>& records, const StudyOptions& options) {
  StudySummary summary;
  const Cells cells = pool(records, options, summary);
  for (const auto& [key, runs] : cells) summary.cells.push_back(cell_of(key, runs));
  note_missing_runs(cells, summary);
  note_card_state(cells, summary);
  const std::vector<Match> matches = match_cells(cells, summary);
  compare_cells(matches, options, summary);
  average_speedups(matches, options, summary);
  collect_provenance(records, summary);
  summary.conclusion = conclude(summary);
  return summary;
}

}  // namespace amdahl

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "amdahl/units.h"
#include "report/common/words.h"
#include "report/study/cells.h"
#include "stats/compare.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

// The best one-device cell that does the same work: strong scaling, the same global batch; weak, the same device batch.
// One device is the same configuration under either name of the scaling mode; the cell's own mode is preferred.
const std::pair<const CellKey, CellRuns>* best_single(const StudyCells& cells, const CellKey& multi) {
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
CellPair pair_of(const Match& match) {
  return {&match.multi->second, &match.single->second, match.multi->first.scaling == "weak"};
}

PairSamples samples_of(const CellPair& pair) {
  if (pair.by_throughput) return {pair.first->throughput, pair.second->throughput, Direction::larger_is_faster};
  return {pair.first->step_time_us, pair.second->step_time_us, Direction::smaller_is_faster};
}

// Both sides were measured in turns by the same processes: within the one process by their runs, over several by what
// each process says.
bool several_processes(const CellPair& pair) {
  return std::min(pair.first->step_time_by_process.size(), pair.second->step_time_by_process.size()) > 1;
}

ProcessPair processes_of(const CellPair& pair) {
  if (pair.by_throughput)
    return {pair.first->throughput_by_process, pair.second->throughput_by_process, Direction::larger_is_faster, true};
  return {pair.first->step_time_by_process, pair.second->step_time_by_process, Direction::smaller_is_faster, true};
}

std::vector<Match> match_cells(const StudyCells& cells, StudySummary& summary) {
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
  std::vector<CellPair> pairs;
  for (const Match& match : matches) pairs.push_back(pair_of(match));
  const std::vector<PairTest> tests = test_cells(pairs, options.bootstrap);
  for (size_t i = 0; i < matches.size(); ++i) {
    StudyComparison c;
    c.single = matches[i].single->first;
    c.multi = matches[i].multi->first;
    c.test = tests[i];
    const double devices = static_cast<double>(c.multi.devices);
    c.efficiency = c.test.ratio / devices;
    if (c.test.ci) c.efficiency_ci = Interval{c.test.ci->low / devices, c.test.ci->high / devices};
    c.recommendation = recommend(c.test);
    c.more_runs = runs_to_recommend(c.test);
    summary.comparisons.push_back(c);
  }
}

// What the bootstrap of an average draws from: runs of one process, or the medians of several, kept in `medians`.
SamplePair resampled(const CellPair& pair, std::deque<std::vector<double>>& medians) {
  PairSamples samples = samples_of(pair);
  if (several_processes(pair)) {
    const ProcessPair processes = processes_of(pair);
    medians.push_back(process_medians(processes.first));
    samples.first = medians.back();
    medians.push_back(process_medians(processes.second));
    samples.second = medians.back();
  }
  const bool larger = samples.direction == Direction::larger_is_faster;
  return {larger ? samples.first : samples.second, larger ? samples.second : samples.first};
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
    std::deque<std::vector<double>> medians;  // that pairs point to
    double log_sum = 0;
    bool multi = false, single = false;
    for (size_t i : members) {
      multi |= summary.comparisons[i].recommendation == Recommendation::multi_device;
      single |= summary.comparisons[i].recommendation == Recommendation::single_device;
      pairs.push_back(resampled(pair_of(matches[i]), medians));
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

}  // namespace

std::vector<PairTest> test_cells(const std::vector<CellPair>& pairs, const BootstrapOptions& options) {
  std::vector<PairTest> tests;
  for (const CellPair& pair : pairs)
    tests.push_back(several_processes(pair) ? test_processes(processes_of(pair))
                                            : test_pair(samples_of(pair), options));
  std::vector<TestedPair> judged;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const ProcessPair processes = processes_of(pairs[i]);
    const PairSamples samples = samples_of(pairs[i]);
    if (several_processes(pairs[i]))
      judged.push_back({&tests[i], process_moments(processes.first), process_moments(processes.second)});
    else
      judged.push_back({&tests[i], moments_of(samples.first), moments_of(samples.second)});
  }
  judge_together(judged);
  return tests;
}

std::vector<double> independent_step_times(const CellRuns& runs) {
  return runs.step_time_by_process.size() > 1 ? process_medians(runs.step_time_by_process) : runs.step_time_us;
}

void compare_study_cells(const StudyCells& cells, const StudyOptions& options, StudySummary& summary) {
  const std::vector<Match> matches = match_cells(cells, summary);
  compare_cells(matches, options, summary);
  average_speedups(matches, options, summary);
}

}  // namespace amdahl

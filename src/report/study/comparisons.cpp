#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "amdahl/error.h"
#include "report/common/baseline.h"
#include "report/common/words.h"
#include "report/study/cells.h"
#include "stats/compare.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::string work_of(const CellKey& key) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", key.model, key.num_parameters, key.math, key.data, key.optimizer,
                     key.backend);
}

// A one-device cell is valid for either scaling mode; the same mode is preferred.
std::vector<BaselineCandidate> baseline_candidates(const std::vector<const StudyCells::value_type*>& cells) {
  std::vector<BaselineCandidate> candidates;
  for (const auto* cell : cells) {
    const CellKey& key = cell->first;
    const bool is_alone = key.devices == 1 && !cell->second.ok.empty();
    candidates.push_back({is_alone, work_of(key), key.global_batch, key.scaling, "",
                          is_alone ? 1 / mean_of(cell->second.step_time_us) : 0});
  }
  return candidates;
}

struct Match {
  const StudyCells::value_type* single;
  const StudyCells::value_type* multi;
};

// Strong scaling compares step times, T1 / Tn; weak scaling compares throughputs, because the batches differ.
CellPair pair_of(const Match& match) {
  return {&match.multi->second, &match.single->second, match.multi->first.scaling == "weak"};
}

PairSamples samples_of(const CellPair& pair) {
  if (pair.by_throughput) return {pair.first->throughput, pair.second->throughput, Direction::larger_is_faster};
  return {pair.first->step_time_us, pair.second->step_time_us, Direction::smaller_is_faster};
}

// Both sides were measured alternately by the same processes. With one process the runs are tested, with several one
// value per process.
bool several_processes(const CellPair& pair) {
  return std::min(pair.first->step_time_by_process.size(), pair.second->step_time_by_process.size()) > 1;
}

ProcessPair processes_of(const CellPair& pair) {
  if (pair.by_throughput)
    return {pair.first->throughput_by_process, pair.second->throughput_by_process, Direction::larger_is_faster, true};
  return {pair.first->step_time_by_process, pair.second->step_time_by_process, Direction::smaller_is_faster, true};
}

std::vector<Match> match_cells(const StudyCells& cells, StudySummary& summary) {
  std::vector<const StudyCells::value_type*> all;
  for (const auto& cell : cells) all.push_back(&cell);
  const std::vector<BaselineCandidate> candidates = baseline_candidates(all);
  std::vector<Match> matches;
  for (const auto* cell : all) {
    const CellKey& key = cell->first;
    if (key.devices < 2 || cell->second.ok.empty()) continue;
    const int64_t size = size_of_one_device(key.global_batch, key.devices, key.scaling);
    if (const auto single = find_baseline(candidates, {work_of(key), size, key.scaling}))
      matches.push_back({all[*single], cell});
    else
      summary.notes.push_back(
          fmt::format("{}: no one-device cell of the same batch was measured, so no speedup", format_cell(key)));
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

// The samples for the bootstrap of an average: runs of one process, or the medians of several, which `medians` owns.
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
  std::map<CellKey, std::vector<size_t>> groups;  // by key without batch
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
    std::deque<std::vector<double>> medians;  // storage that pairs point to
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

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "amdahl/error.h"
#include "report/common/baseline.h"
#include "report/common/words.h"
#include "report/study/cells.h"
#include "stats/compare.h"
#include "stats/estimate.h"

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
                          is_alone ? 1 / summarise_processes(cell->second.step_time_by_process).estimate().value : 0});
  }
  return candidates;
}

struct Match {
  const StudyCells::value_type* single;
  const StudyCells::value_type* multi;
};

// Weak scaling: the batches differ, and with them the work of a step.
CellPair pair_of(const Match& match) {
  const auto batch = [](const StudyCells::value_type* cell) { return static_cast<double>(cell->first.global_batch); };
  return {&match.multi->second, &match.single->second, batch(match.multi) / batch(match.single)};
}

std::vector<double> scaled_samples(std::vector<double> samples, double factor) {
  for (double& sample : samples) sample *= factor;
  return samples;
}

ProcessSamples scaled_samples(ProcessSamples samples, double factor) {
  for (auto& [process, runs] : samples) runs = scaled_samples(std::move(runs), factor);
  return samples;
}

// Both sides were measured alternately by the same processes. With one process the runs are tested, with several one
// value per process.
bool several_processes(const CellPair& pair) {
  return std::min(pair.first->step_time_by_process.size(), pair.second->step_time_by_process.size()) > 1;
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

void compare_cells(const std::vector<Match>& matches, StudySummary& summary) {
  std::vector<CellPair> pairs;
  for (const Match& match : matches) pairs.push_back(pair_of(match));
  const std::vector<PairTest> tests = test_cells(pairs);
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

void average_speedups(StudySummary& summary) {
  std::map<CellKey, std::vector<Estimate>> groups;  // by key without batch
  for (const StudyComparison& c : summary.comparisons) {
    CellKey group = c.multi;
    group.global_batch = 0;
    groups[group].push_back({c.test.ratio, c.test.ci});
  }
  for (const auto& [key, speedups] : groups) {
    const Estimate mean = geometric_mean(speedups);
    summary.averages.push_back({key.model, key.scaling, key.math, key.strategy, key.launch, configuration_text(key),
                                key.devices, static_cast<int64_t>(speedups.size()), mean.value, mean.ci});
  }
}

}  // namespace

std::vector<PairTest> test_cells(const std::vector<CellPair>& pairs) {
  std::vector<PairTest> tests;
  std::vector<std::pair<Moments, Moments>> moments;
  for (const CellPair& pair : pairs) {
    const CellRuns &first = *pair.first, &second = *pair.second;
    if (several_processes(pair)) {
      const ProcessSamples scaled = scaled_samples(second.step_time_by_process, pair.work);
      tests.push_back(test_processes({.first = first.step_time_by_process, .second = scaled, .paired = true}));
      moments.emplace_back(process_moments(first.step_time_by_process), process_moments(scaled));
    } else {
      const std::vector<double> scaled = scaled_samples(second.step_time_us, pair.work);
      tests.push_back(test_pair({first.step_time_us, scaled}));
      moments.emplace_back(moments_of(first.step_time_us), moments_of(scaled));
    }
  }
  std::vector<TestedPair> judged;
  for (size_t i = 0; i < pairs.size(); ++i) judged.push_back({&tests[i], moments[i].first, moments[i].second});
  judge_together(judged);
  return tests;
}

void compare_study_cells(const StudyCells& cells, StudySummary& summary) {
  compare_cells(match_cells(cells, summary), summary);
  average_speedups(summary);
}

}  // namespace amdahl

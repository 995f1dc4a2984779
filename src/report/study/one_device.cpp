#include "report/study/one_device.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "stats/compare.h"

namespace amdahl {
namespace {

// The key of the work of a cell, without batch, launch and math mode.
auto same_work_key(const CellKey& key) {
  return std::tie(key.model, key.num_parameters, key.scaling, key.optimizer, key.plan.accumulate, key.data);
}

struct Method {
  std::string launch, math;
  auto operator<=>(const Method&) const = default;
};

Method method_of(const CellKey& key) { return {key.launch, key.math}; }

using Cells = std::vector<const StudyCell*>;

// The requested launch and math mode. If several were measured equally often, the simplest.
Method asked_method(const Cells& cells) {
  std::map<Method, std::pair<int64_t, int64_t>> counts;  // number of cells, number of runs
  for (const StudyCell* cell : cells) {
    auto& [num_cells, num_runs] = counts[method_of(cell->key)];
    ++num_cells;
    num_runs += cell->step_time_us.n;
  }
  const auto plainness = [](const Method& method) {
    return (method.launch == "eager" ? 2 : 0) + (method.math == "fp32" ? 1 : 0);
  };
  return std::max_element(counts.begin(), counts.end(),
                          [&](const auto& a, const auto& b) {
                            return std::tuple(a.second, plainness(a.first)) < std::tuple(b.second, plainness(b.first));
                          })
      ->first;
}

const StudyCell* find(const Cells& cells, int64_t batch, const Method& method) {
  for (const StudyCell* cell : cells)
    if (cell->key.global_batch == batch && method_of(cell->key) == method) return cell;
  return nullptr;
}

double step_us(const StudyCell& cell) { return cell.step_time_us.estimate().value; }

const StudyCell* fastest_of_batch(const Cells& cells, int64_t batch) {
  const StudyCell* best = nullptr;
  for (const StudyCell* cell : cells)
    if (cell->key.global_batch == batch && (!best || step_us(*cell) < step_us(*best))) best = cell;
  return best;
}

std::optional<SpeedupBound> bound_of(const Cells& cells, int64_t batch, const StudyCells& runs) {
  const int64_t half = (batch + 1) / 2;  // the larger half: the slower of two devices ends the step
  const StudyCell *whole = fastest_of_batch(cells, batch), *part = fastest_of_batch(cells, half);
  if (half == batch || !whole || !part) return std::nullopt;
  SpeedupBound bound;
  bound.whole = whole->key;
  bound.half = part->key;
  // Tested like two configurations of the same work, with half of the batch as the faster one.
  const PairTest test = test_cells({{&runs.at(part->key), &runs.at(whole->key)}}).front();
  bound.ratio = test.ratio;
  bound.ci = test.ci;
  bound.cannot_pay = bound.ci && bound.ci->high < kMultiBeneficial;
  return bound;
}

// A launch mode is compared with the requested one; a math mode with the requested math at the same launch mode.
void add_alternatives(const Cells& cells, const Method& asked, std::vector<OneDeviceAlternative>& alternatives) {
  for (const StudyCell* cell : cells) {
    const Method method = method_of(cell->key);
    if (method == asked) continue;
    const StudyCell* from =
        method.math == asked.math ? nullptr : find(cells, cell->key.global_batch, {method.launch, asked.math});
    if (!from) from = find(cells, cell->key.global_batch, asked);
    if (from) alternatives.push_back({from->key, cell->key, {}});
  }
}

const CellKey& fastest(const Cells& cells) {
  return (*std::max_element(
              cells.begin(), cells.end(),
              [](const StudyCell* a, const StudyCell* b) { return a->throughput().value < b->throughput().value; }))
      ->key;
}

}  // namespace

std::optional<double> launch_share(const StudyCell& cell) {
  if (!cell.account || !cell.account->trusted()) return std::nullopt;
  return std::min(1.0, cell.account->launch_us() / cell.account->whole_us());
}

std::optional<OneDeviceSummary> summarise_one_device(const std::vector<StudyCell>& cells, const StudyCells& runs) {
  std::vector<Cells> works;
  for (const StudyCell& cell : cells) {
    if (cell.key.devices > 1) return std::nullopt;
    if (cell.step_time_us.n == 0) continue;
    const auto known = std::find_if(works.begin(), works.end(), [&](const Cells& work) {
      return same_work_key(work.front()->key) == same_work_key(cell.key);
    });
    if (known == works.end())
      works.push_back({&cell});
    else
      known->push_back(&cell);
  }
  if (works.empty()) return std::nullopt;
  OneDeviceSummary summary;
  Cells all, all_as_asked;
  for (const Cells& work : works) {
    const Method asked = asked_method(work);
    for (const StudyCell* cell : work) {
      all.push_back(cell);
      if (method_of(cell->key) != asked) continue;
      all_as_asked.push_back(cell);
      summary.rows.push_back({cell->key, launch_share(*cell), bound_of(work, cell->key.global_batch, runs)});
    }
    add_alternatives(work, asked, summary.alternatives);
  }
  summary.fastest = fastest(all);
  summary.fastest_as_asked = fastest(all_as_asked);
  std::vector<CellPair> pairs;
  for (const OneDeviceAlternative& a : summary.alternatives) pairs.push_back({&runs.at(a.to), &runs.at(a.from)});
  const std::vector<PairTest> tests = test_cells(pairs);
  for (size_t i = 0; i < tests.size(); ++i) summary.alternatives[i].test = tests[i];
  return summary;
}

}  // namespace amdahl

#include "sensor/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "amdahl/error.h"
#include "report/common/baseline.h"
#include "report/common/record_checks.h"
#include "sensor/report/cost.h"
#include "sensor/report/results.h"
#include "stats/compare.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

using Axes = std::map<std::string, AxisValue>;
using Role = SensorRow::Role;
using Notes = std::vector<std::string>;

void require_homogeneous(const std::vector<SensorResult>& all, const SensorCompareOptions& options, Notes& notes) {
  std::set<std::string> kinds, hosts;
  for (const SensorResult& r : all) kinds.insert(r.row.device_kind), hosts.insert(r.record->provenance.host);
  const std::string difference = fmt::format("device kinds differ: {}", fmt::join(kinds, ", "));
  if (kinds.size() > 1 && !options.allow_unlike)
    throw Error(Cause::usage, difference, "runs on the same kind of device, or `allow_unlike`");
  if (kinds.size() > 1) add_note(notes, difference + "; a virtual device says nothing about a GPU");
  if (hosts.size() > 1) add_note(notes, fmt::format("hosts differ: {}", fmt::join(hosts, ", ")));
}

/// One workload: the baseline, other single-device results by throughput, then the rest by role and devices.
struct Group {
  std::vector<const SensorResult*> members;
  size_t num_single = 0;

  const SensorResult& baseline() const { return *members.front(); }
};

/// Strong scaling: the same items as the baseline; weak scaling: the same items per device. Other modes set no number.
bool same_work(const SensorResult& r, const SensorResult& baseline, Notes& notes) {
  const int64_t expected = r.scaling == "strong" ? baseline.items
                           : r.scaling == "weak" ? r.devices * baseline.items
                                                 : r.items;
  if (r.items == expected) return true;
  add_note(notes,
           fmt::format("{}: {} scaling of {} on {} devices left out: {} items per call where {} in {} ask for {}",
                       r.row.run, r.scaling, format_workload(r.workload), r.devices, r.items, baseline.items,
                       baseline.row.run, expected));
  return false;
}

Group sorted_group(std::vector<const SensorResult*> members, Notes& notes) {
  std::stable_sort(members.begin(), members.end(), [](const SensorResult* a, const SensorResult* b) {
    if (a->row.role != b->row.role) return a->row.role < b->row.role;
    if (a->row.role == Role::single) return a->throughput().value > b->throughput().value;
    return a->devices < b->devices;
  });
  Group group;
  for (const SensorResult* r : members) {
    if (r->unit != members.front()->unit)
      throw damaged_record(*r->record, fmt::format("gives 'throughput' in {} where others have {}",
                                                   printable(r->unit, 40), printable(members.front()->unit, 40)));
    if (r->row.role == Role::single)
      ++group.num_single;
    else if (group.num_single > 0 && !same_work(*r, group.baseline(), notes))
      continue;
    group.members.push_back(r);
  }
  return group;
}

std::vector<Group> groups_of(const std::vector<SensorResult>& all, Notes& notes) {
  std::map<Axes, std::vector<const SensorResult*>> by_workload;
  for (const SensorResult& r : all) by_workload[r.workload].push_back(&r);
  std::vector<Group> groups;
  Notes unmatched;
  for (const auto& [workload, members] : by_workload) {
    Group group = sorted_group(members, unmatched);
    if (group.num_single == 0)
      add_note(unmatched, fmt::format("no result on one device of {}: left out", format_workload(workload)));
    else if (group.num_single == group.members.size())
      add_note(unmatched, fmt::format("results on one device alone of {}: left out", format_workload(workload)));
    else
      groups.push_back(std::move(group));
  }
  if (groups.empty())
    throw Error(Cause::usage, fmt::format("no workload in common: {}", fmt::join(unmatched, "; ")),
                "runs that share op, voxel mode, dtype, sizes, cache and launch, and under strong scaling the items");
  for (const std::string& note : unmatched) add_note(notes, note);
  return groups;
}

void add_cost(const SensorCompareOptions& options, const SensorResult& r, SensorRow& row, Notes& notes) {
  if (!options.prices) return;
  const ResultDevices devices{row.run, r.devices, row.devices, row.device_kind, row.origin};
  row.cost = cost_of(*options.prices, devices, row.throughput, notes);
}

WorkloadComparison workload_of(const Group& group, const SensorCompareOptions& options, Notes& notes) {
  WorkloadComparison workload;
  workload.axes = group.baseline().workload;
  workload.unit = group.baseline().unit;
  for (const SensorResult* r : group.members) {
    SensorRow row = r->row;
    const Estimate throughput = r->throughput();
    row.n = static_cast<int64_t>(r->time_us.size());
    row.throughput = throughput.value;
    row.throughput_ci = throughput.ci;
    row.work_per_hour = row.throughput * kSecondsPerHour;
    add_cost(options, *r, row, notes);
    workload.rows.push_back(std::move(row));
  }
  return workload;
}

/// The best single result on a device of that name, or null.
const SensorResult* single_on(const Group& group, const std::string& device) {
  std::vector<BaselineCandidate> candidates;
  for (size_t i = 0; i < group.num_single; ++i) {
    const SensorResult& single = *group.members[i];
    const bool is_known = single.row.devices.size() == 1;
    candidates.push_back({is_known, "", 0, "", is_known ? single.row.devices.front() : "", single.throughput().value});
  }
  const auto best = find_baseline(candidates, {"", 0, "", {device}});
  return best ? group.members[*best] : nullptr;
}

/// Efficiency: throughput / sum of the single-device throughputs of the row's devices.
void add_efficiency_by_sum(const Group& group, const SensorResult& r, SensorRow& row, Notes& notes) {
  std::map<std::string, Weighted> alone;  // by device
  for (const std::string& device : row.devices) {
    const SensorResult* single = single_on(group, device);
    if (!single)
      return add_note(notes, fmt::format("no result of {} on one '{}': no efficiency with it",
                                         format_workload(r.workload), printable(device, 60)));
    alone.try_emplace(device, Weighted{single->throughput(), 0}).first->second.weight += 1;
  }
  std::vector<Weighted> parts;
  for (const auto& [device, part] : alone) parts.push_back(part);
  const Estimate efficiency = ratio_of(r.throughput(), sum_of(parts));
  row.efficiency = efficiency.value;
  row.efficiency_ci = efficiency.ci;
  row.efficiency_by_sum = true;
}

void add_efficiency(const Group& group, const SensorResult& r, SensorRow& row, Notes& notes) {
  if (static_cast<int64_t>(row.devices.size()) != r.devices || group.baseline().row.devices.empty())
    return add_note(notes, fmt::format("{}: which devices computed is not recorded: no efficiency", row.run));
  const std::string& device = group.baseline().row.devices.front();
  if (std::any_of(row.devices.begin(), row.devices.end(), [&](const std::string& d) { return d != device; }))
    return add_efficiency_by_sum(group, r, row, notes);
  const auto devices = static_cast<double>(r.devices);
  row.efficiency = row.speedup->ratio / devices;
  if (const auto& ci = row.speedup->ci) row.efficiency_ci = Interval{ci->low / devices, ci->high / devices};
}

/// The times of calls, each for the work of one item, so that calls of different sizes compare.
std::vector<double> item_times(const SensorResult& r) {
  std::vector<double> times = r.time_us;
  for (double& time : times) time /= r.work;
  return times;
}

void add_speedups(const std::vector<Group>& groups, SensorComparison& result) {
  std::vector<std::vector<double>> times;  // of each group the baseline first
  std::vector<PairSamples> grid;
  for (const Group& group : groups)
    for (const SensorResult* r : group.members) times.push_back(item_times(*r));
  size_t baseline = 0;
  for (const Group& group : groups) {
    for (size_t i = 1; i < group.members.size(); ++i) grid.push_back({times[baseline + i], times[baseline]});
    baseline += group.members.size();
  }
  const std::vector<PairTest> tests = test_grid(grid);
  size_t next = 0;
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 1; i < groups[g].members.size(); ++i) {
      SensorRow& row = result.workloads[g].rows[i];
      row.speedup = tests[next++];
      if (row.role == Role::single) continue;
      row.recommendation = recommend(*row.speedup);
      add_efficiency(groups[g], *groups[g].members[i], row, result.notes);
    }
}

void choose(WorkloadComparison& workload) {
  const std::vector<SensorRow>& rows = workload.rows;
  const auto leads = [&](size_t i, size_t other) {  // measured results precede emulated ones
    const bool measured = rows[i].origin == Origin::measured;
    if (measured != (rows[other].origin == Origin::measured)) return measured;
    return rows[i].throughput > rows[other].throughput;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (leads(i, workload.fastest)) workload.fastest = i;
    if (rows[i].recommendation && (workload.fastest_multi == 0 || leads(i, workload.fastest_multi)))
      workload.fastest_multi = i;
    if (rows[i].cost &&
        (!workload.cheapest || rows[i].cost->work_per_price > rows[*workload.cheapest].cost->work_per_price))
      workload.cheapest = i;
  }
}

}  // namespace

SensorComparison compare_sensors(const SensorSides& sides, const SensorCompareOptions& options) {
  if (sides.single.empty())
    throw Error(Cause::usage, "no run on one device to compare with", "`single` with a run of amdahl sensor bench");
  if (sides.multi.empty() && sides.hetero.empty())
    throw Error(Cause::usage, "no run on several devices to compare", "`multi` or `hetero` with a run");
  SensorComparison result;
  std::vector<SensorResult> all;
  for (const auto& [runs, role] :
       {std::pair{&sides.single, Role::single}, {&sides.multi, Role::multi}, {&sides.hetero, Role::hetero}}) {
    std::vector<SensorResult> found = results_on(*runs, role, sides, result.notes);
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  require_homogeneous(all, options, result.notes);
  if (options.prices) {
    result.prices = options.prices->source;
    result.as_of = options.prices->as_of;
    result.currency = options.prices->currency;
  } else {
    result.notes.push_back(named("no cost: `prices=FILE` adds it; data/prices.toml of amdahl is an example to edit"));
  }
  const std::vector<Group> groups = groups_of(all, result.notes);
  for (const Group& group : groups) result.workloads.push_back(workload_of(group, options, result.notes));
  add_speedups(groups, result);
  for (WorkloadComparison& workload : result.workloads) choose(workload);
  return result;
}

}  // namespace amdahl

#include "sensor/measure/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "amdahl/error.h"
#include "sensor/measure/workload.h"

namespace amdahl {
namespace {

/// Devices by the time that they need for all tasks, the fastest first.
std::vector<int> by_speed(const TaskCosts& costs) {
  std::vector<double> sum(costs.front().size());
  for (const std::vector<double>& task : costs)
    for (size_t device = 0; device < sum.size(); ++device) sum[device] += task[device];
  std::vector<int> order(sum.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return sum[static_cast<size_t>(a)] < sum[static_cast<size_t>(b)]; });
  return order;
}

/// Tasks of the first kind on the faster half of the devices, the others on the rest.
Placement here_and_there(const TaskCosts& costs, const std::vector<bool>& here) {
  const std::vector<int> order = by_speed(costs);
  const auto half = static_cast<std::ptrdiff_t>((order.size() + 1) / 2);
  const std::vector<int> fast(order.begin(), order.begin() + half);
  const std::vector<int> slow(order.size() > 1 ? order.begin() + half : order.begin(), order.end());
  std::vector<std::vector<int>> allowed;
  for (const bool one : here) allowed.push_back(one ? fast : slow);
  return place_longest_first(costs, allowed);
}

Placement on_one_device(const std::vector<SensorJob>& tasks, const TaskCosts& costs) {
  return placed(costs, std::vector<int>(tasks.size(), by_speed(costs).front()));
}

Placement in_turn(const std::vector<SensorJob>& tasks, const TaskCosts& costs) {
  std::vector<int> device_of;
  for (size_t task = 0; task < tasks.size(); ++task) device_of.push_back(static_cast<int>(task % costs.front().size()));
  return placed(costs, std::move(device_of));
}

Placement by_cost(const std::vector<SensorJob>&, const TaskCosts& costs) { return place_longest_first(costs); }

/// The half of the tasks with the most operations a byte counts as compute-intensive.
Placement by_intensity(const std::vector<SensorJob>& tasks, const TaskCosts& costs) {
  std::vector<size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return operations_per_byte(tasks[a]) > operations_per_byte(tasks[b]); });
  std::vector<bool> here(tasks.size());
  for (size_t i = 0; i < (tasks.size() + 1) / 2; ++i) here[order[i]] = true;
  return here_and_there(costs, here);
}

Placement by_operation(const std::vector<SensorJob>& tasks, const TaskCosts& costs) {
  std::vector<bool> here;
  for (const SensorJob& task : tasks) here.push_back(task.voxelizes());
  return here_and_there(costs, here);
}

}  // namespace

const std::vector<PlacementPolicy>& placement_policies() {
  static const std::vector<PlacementPolicy> rows{
      {"one-device", "all tasks one after another on the fastest device", on_one_device},
      {"even", "tasks in turn, whatever they cost", in_turn},
      {"compute-here-memory-there", "more operations a byte: on the faster devices", by_intensity},
      {"voxelize-here-fuse-there", "voxelizations on the faster devices, the rest on the others", by_operation},
      {"cost", "longest first, each where it would be done earliest", by_cost},
  };
  return rows;
}

const PlacementPolicy& find_placement_policy(const std::string& name) {
  std::vector<std::string> names;
  for (const PlacementPolicy& row : placement_policies()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw Error(Cause::usage, fmt::format("`policies`: unknown value '{}'", printable(name, 40)),
              choices_hint(name, names));
}

double operations_per_byte(const SensorJob& job) {
  const auto items = static_cast<double>(job.num_items);
  double operations = 0;
  if (job.voxelizes()) {
    operations = items * (3.0 * 3 + 4 + static_cast<double>(job.num_features));
  } else {
    const auto targets = static_cast<double>(job.num_targets);
    for (const StreamShape& stream : job.streams)
      operations +=
          items * targets * (4 * static_cast<double>(stream.width) + std::log2(static_cast<double>(stream.length) + 1));
  }
  return operations / useful_bytes(job, 1);
}

}  // namespace amdahl

#include "sensor/ops/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "amdahl/error.h"

namespace amdahl {
namespace {

double fastest(const std::vector<double>& by_device) { return *std::min_element(by_device.begin(), by_device.end()); }

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

size_t num_devices(const TaskCosts& costs) { return costs.empty() ? 0 : costs.front().size(); }

}  // namespace

double Placement::makespan_us() const {
  return load_us.empty() ? 0 : *std::max_element(load_us.begin(), load_us.end());
}

Placement placed(const TaskCosts& costs, std::vector<int> device_of) {
  Placement placement;
  placement.load_us.resize(num_devices(costs));
  for (size_t task = 0; task < costs.size(); ++task) {
    const auto device = static_cast<size_t>(device_of[task]);
    placement.load_us[device] += costs[task][device];
  }
  placement.device_of = std::move(device_of);
  return placement;
}

Placement place_longest_first(const TaskCosts& costs, const std::vector<std::vector<int>>& allowed) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return fastest(costs[a]) > fastest(costs[b]); });
  std::vector<double> load(num_devices(costs));
  std::vector<int> device_of(costs.size());
  for (const size_t task : order) {
    double earliest = std::numeric_limits<double>::infinity();
    for (const int device : allowed[task]) {
      const double end = load[static_cast<size_t>(device)] + costs[task][static_cast<size_t>(device)];
      if (end < earliest) earliest = end, device_of[task] = device;
    }
    load[static_cast<size_t>(device_of[task])] = earliest;
  }
  return placed(costs, std::move(device_of));
}

Placement place_longest_first(const TaskCosts& costs) {
  std::vector<int> all(num_devices(costs));
  std::iota(all.begin(), all.end(), 0);
  return place_longest_first(costs, std::vector<std::vector<int>>(costs.size(), all));
}

double makespan_bound_us(const TaskCosts& costs) {
  double longest = 0, sum = 0;
  for (const std::vector<double>& task : costs) {
    longest = std::max(longest, fastest(task));
    sum += fastest(task);
  }
  return std::max(longest, costs.empty() ? 0 : sum / static_cast<double>(num_devices(costs)));
}

SpeedShares::SpeedShares(std::vector<double> speeds, double gain) : speeds_(std::move(speeds)), gain_(gain) {
  for (const double speed : speeds_)
    if (!(speed > 0) || !std::isfinite(speed))
      throw Error(Cause::usage, fmt::format("the speed of a device is {}", speed), "finite speeds above 0");
}

std::vector<double> SpeedShares::shares() const {
  std::vector<double> shares = speeds_;
  for (double& share : shares) share /= sum_of(speeds_);
  return shares;
}

void SpeedShares::update(const std::vector<int64_t>& items, const std::vector<double>& us) {
  const std::vector<double> before = shares();
  for (size_t i = 0; i < speeds_.size(); ++i)
    if (items[i] > 0 && us[i] > 0) speeds_[i] += gain_ * (static_cast<double>(items[i]) / us[i] - speeds_[i]);
  const std::vector<double> after = shares();
  last_change_ = 0;
  for (size_t i = 0; i < after.size(); ++i) last_change_ = std::max(last_change_, std::fabs(after[i] - before[i]));
}

double balanced_time_us(int64_t items, const std::vector<double>& speeds) {
  return static_cast<double>(items) / sum_of(speeds);
}

}  // namespace amdahl

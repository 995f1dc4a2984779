// Placement of work on heterogeneous devices: whole tasks, or shares of one job.
#pragma once

#include <cstdint>
#include <vector>

namespace amdahl {

/// Time of each task on each device alone, us: [task][device].
using TaskCosts = std::vector<std::vector<double>>;

struct Placement {
  std::vector<int> device_of;   // by task
  std::vector<double> load_us;  // by device: its tasks one after another

  double makespan_us() const;
};

/// What devices have to do when task i runs on device_of[i].
Placement placed(const TaskCosts& costs, std::vector<int> device_of);

/// Longest task first (by its time on its fastest device), each to the device of `candidates` that would be done with
/// it earliest, the first of equals. On homogeneous devices at most 4/3 of the shortest makespan (Graham 1969).
Placement place_longest_first(const TaskCosts& costs);
/// The same where task i may only run on devices allowed[i], none of them empty.
Placement place_longest_first(const TaskCosts& costs, const std::vector<std::vector<int>>& allowed);

/// No placement is shorter: the longest task on its fastest device, or all tasks there, spread over the devices with no
/// gap. On homogeneous devices max(longest, sum / devices).
double makespan_bound_us(const TaskCosts& costs);

/// Shares of one job that follow the devices' speeds.
class SpeedShares {
 public:
  /// `speeds`: items a us of each device alone, all above 0. An update goes `gain` (above 0, at most 1) of the way to
  /// what was measured: less of it forgets more slowly and follows noise less.
  explicit SpeedShares(std::vector<double> speeds, double gain = 0.5);

  /// In proportion to the speeds; their sum is 1.
  std::vector<double> shares() const;
  /// What every device did in the last block, and how long it took. A device without items keeps its speed.
  void update(const std::vector<int64_t>& items, const std::vector<double>& us);
  /// The largest change of a share by the last update; 1 before the first.
  double last_change() const { return last_change_; }

 private:
  std::vector<double> speeds_;
  double gain_;
  double last_change_ = 1;
};

/// us that `items` take when every device works all the time: items / sum of speeds.
double balanced_time_us(int64_t items, const std::vector<double>& speeds);

}  // namespace amdahl

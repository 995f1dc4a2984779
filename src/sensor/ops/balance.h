// Placement of work on heterogeneous devices: whole tasks, or shares of one job.
#pragma once

#include <cstdint>
#include <vector>

namespace amdahl {

/// Time of each task on each device alone, us: [task][device].
using TaskCosts = std::vector<std::vector<double>>;

struct Placement {
  std::vector<int> device_of;   // by task
  std::vector<double> load_us;  // by device: sum of its tasks

  double makespan_us() const;
};

/// The placement in which task i runs on device_of[i].
Placement placed(const TaskCosts& costs, std::vector<int> device_of);

/// Places tasks by decreasing time on their fastest device, each on the device that finishes it earliest, the first one
/// if equal. On homogeneous devices the makespan is at most 4/3 of the optimum (Graham 1969).
Placement place_longest_first(const TaskCosts& costs);
/// The same if task i may only run on devices allowed[i], which is not empty.
Placement place_longest_first(const TaskCosts& costs, const std::vector<std::vector<int>>& allowed);

/// A lower bound of the makespan: the larger of the longest task and the sum of all tasks / devices, each task at the
/// time on its fastest device.
double makespan_bound_us(const TaskCosts& costs);

/// Shares of one job that follow measured speeds of the devices.
class SpeedShares {
 public:
  /// `speeds`: items per us of each device alone, all above 0. An update moves a speed by `gain` (in (0, 1]) times its
  /// difference to the measured one; a smaller gain suppresses more noise.
  explicit SpeedShares(std::vector<double> speeds, double gain = 0.5);

  /// Proportional to the speeds; their sum is 1.
  std::vector<double> shares() const;
  /// Updates the speeds from the items and time of each device in the last block. A device without items keeps its
  /// speed.
  void update(const std::vector<int64_t>& items, const std::vector<double>& us);
  /// Largest change of a share in the last update; 1 before the first update.
  double last_change() const { return last_change_; }

 private:
  std::vector<double> speeds_;
  double gain_;
  double last_change_ = 1;
};

/// Time of `items` if no device is ever idle, us: items / sum of speeds.
double balanced_time_us(int64_t items, const std::vector<double>& speeds);

}  // namespace amdahl

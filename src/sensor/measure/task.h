// Different operations on different devices at once: whole tasks, placed by their measured costs.
#pragma once

#include <string>
#include <vector>

#include "sensor/measure/bench.h"

namespace amdahl {

struct TaskPlan {
  std::vector<SensorJob> tasks;
  std::string mode = "task";  // or hetero
  int devices = 1;
  /// Placement policies, measured one after another. Mode task: "cost".
  std::vector<std::string> policies{"cost"};
  std::vector<double> speeds;  // of each device, a fraction of its own; empty: all 1
  std::string path = "direct";
};

/// For each policy a Record of every task ("device" is where it ran) and one of all together, op "all": a call is one
/// round of all tasks. Costs are measured in the same run, each task alone, on device 0 of homogeneous devices (mode
/// task) and on every device of heterogeneous ones.
std::vector<Record> measure_sensor_tasks(Fleet& fleet, const TaskPlan& plan, const SensorBenchSettings& settings);

}  // namespace amdahl

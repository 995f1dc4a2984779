// Comparison of preprocessing on one device, on several and on heterogeneous devices: speed, efficiency, work per hour
// and work per price. docs/cost.md has the formulas. Plain data.
//
// Example:
//   amdahl::SensorCompareConfig config;  // of amdahl/amdahl.h
//   config.single = {"runs/one"}, config.multi = {"runs/two"};
//   std::puts(to_text(amdahl::run_sensor_compare(config)).c_str());
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Hourly cost of the devices of a row and the work they do for it. Independent of speedups.
struct SensorCost {
  double hourly_price = 0;    // of all devices, in the table's currency
  bool owned = false;         // true: purchase and electricity divided by the hours of use, for lack of an hourly price
  double work_per_price = 0;  // items per unit of currency: throughput x 3600 / hourly_price
  std::optional<double> purchase_price;           // of all devices
  std::optional<double> purchase_per_throughput;  // currency per item/s
};

/// One configuration of one run.
struct SensorRow {
  enum class Role { single, multi, hetero };
  Role role = Role::single;
  std::string run;                        // file or folder
  std::map<std::string, AxisValue> axes;  // those of the record, without "run"
  std::vector<std::string> devices;       // device names; fewer than axis "devices" when the record has fewer
  std::string device_kind;                // "cpu-virtual" or "cuda"
  Origin origin = Origin::measured;
  int64_t n = 0;          // samples
  double throughput = 0;  // items/s: items of a call / its time, the median over samples
  std::optional<Interval> throughput_ci;
  double work_per_hour = 0;          // items: throughput x 3600
  std::optional<PairTest> speedup;   // over the workload's baseline; absent for the baseline
  std::optional<double> efficiency;  // several devices: throughput / sum of their throughputs alone
  std::optional<Interval> efficiency_ci;
  bool efficiency_by_sum = false;  // devices differ from the baseline's: the sum is of each one's best single result
  std::optional<Recommendation> recommendation;  // several devices only
  std::optional<SensorCost> cost;                // absent unless every device has a price
};

/// All rows with the same op, voxel_mode, dtype, workload, cache and launch.
struct WorkloadComparison {
  std::map<std::string, AxisValue> axes;
  std::string unit;                // of throughput: "batches/s", "points/s"
  std::vector<SensorRow> rows;     // the baseline first, which is the best single result
  size_t fastest = 0;              // row with the largest throughput
  std::optional<size_t> cheapest;  // row with the most work per price
  /// Row of several devices with the largest throughput, whose recommendation is that of the workload.
  size_t fastest_multi = 0;
};

struct SensorComparison {
  std::vector<WorkloadComparison> workloads;
  std::string prices;    // price file; empty: none
  std::string as_of;     // date of the prices
  std::string currency;  // of all prices
  std::vector<std::string> notes;
};

}  // namespace amdahl

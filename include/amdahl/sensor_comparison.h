// What `amdahl compare` of sensor runs says about preprocessing on one device, on several, and on unlike ones:
// speed, efficiency, work per hour and work per money. docs/cost.md has the formulas.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// What an hour on the devices of a row costs and buys. Nothing in here comes from a speedup.
struct SensorCost {
  double hourly_price = 0;    // of all devices, in the table's currency
  bool owned = false;         // a device has no price for an hour: purchase and electricity over its time of use
  double work_per_price = 0;  // items for one unit of currency: throughput x 3600 / hourly_price
  std::optional<double> purchase_price;           // of all devices
  std::optional<double> purchase_per_throughput;  // currency for one item a second
};

/// One configuration of one run.
struct SensorRow {
  enum class Role { single, multi, hetero };
  Role role = Role::single;
  std::string run;                        // file or folder
  std::map<std::string, AxisValue> axes;  // those of the record, without "run"
  std::vector<std::string> devices;       // their names; fewer than axis "devices" when the record has fewer
  std::string device_kind;                // "cpu-virtual" or "cuda"
  Origin origin = Origin::measured;
  int64_t n = 0;                          // samples
  double throughput = 0;                  // items/s, mean
  std::optional<Interval> throughput_ci;  // bootstrap of the mean; absent when n < 2
  double work_per_hour = 0;               // items: throughput x 3600
  std::optional<PairTest> speedup;        // over the workload's baseline; absent for the baseline itself
  std::optional<double> efficiency;       // of several devices: throughput over the sum of theirs alone
  std::optional<Interval> efficiency_ci;
  bool efficiency_by_sum = false;  // devices differ from the baseline's: each against its own best single result
  std::optional<Recommendation> recommendation;  // of several devices
  std::optional<SensorCost> cost;                // absent without a price of each device
};

/// Everything measured with the same op, voxel_mode, dtype, workload, cache and launch.
struct WorkloadComparison {
  std::map<std::string, AxisValue> axes;
  std::string unit;                // of throughput: "batches/s", "points/s"
  std::vector<SensorRow> rows;     // the baseline first: the best single result
  size_t fastest = 0;              // row of the largest throughput
  std::optional<size_t> cheapest;  // row of the most work for its price
  size_t fastest_multi = 0;        // row of several devices with the largest throughput: its recommendation is that of
                                   // the workload
};

struct SensorComparison {
  std::vector<WorkloadComparison> workloads;
  std::string prices;    // file of the prices; empty: none
  std::string as_of;     // its date
  std::string currency;  // of all prices
  std::vector<std::string> notes;
};

}  // namespace amdahl

// One job over heterogeneous devices: policies that share its items, beside each other.
//
// Every device holds the whole job, and a share is a range of it: a policy can change shares between two calls without
// moving data, at the price of memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sensor/measure/bench.h"
#include "sensor/measure/part.h"

namespace amdahl {

struct SharePolicy {
  std::string_view name;
  std::string_view summary;
  /// Shares from the speeds (items a us) of the devices alone.
  std::vector<double> (*shares)(const std::vector<double>& speeds);
  bool refreshed = false;  // shares follow what each block of calls took
  bool alone = false;      // one device has all: nothing is merged
};

/// one-device, even, proportional, refreshed.
const std::vector<SharePolicy>& share_policies();
/// Error{usage} with the nearest name.
const SharePolicy& find_share_policy(const std::string& name);

struct HeteroPlan {
  SensorJob job;
  int devices = 2;
  std::vector<std::string> policies{"one-device", "even", "proportional", "refreshed"};
  std::vector<double> speeds;  // of each device, a fraction of its own; empty: all 1
  PartsMeet meet = PartsMeet::communicator;
  std::string path = "direct";
};

/// A Record for each policy, from one run: every device's speed alone is measured first. Ranks are threads of one
/// process. A result that is not the one device's, bit for bit (an f32 mean: within rounding of the host's), fails.
std::vector<Record> measure_sensor_shares(Fleet& fleet, const HeteroPlan& plan, const SensorBenchSettings& settings);

}  // namespace amdahl

// Policies that give whole tasks to heterogeneous devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sensor/measure/data.h"
#include "sensor/ops/balance.h"

namespace amdahl {

struct PlacementPolicy {
  std::string_view name;
  std::string_view summary;
  Placement (*place)(const std::vector<SensorJob>& tasks, const TaskCosts& costs);
};

/// one-device, even, cost, compute-here-memory-there, voxelize-here-fuse-there.
const std::vector<PlacementPolicy>& placement_policies();
/// Error{usage} with the nearest name.
const PlacementPolicy& find_placement_policy(const std::string& name);

/// Arithmetic operations for each byte that a call has to touch. A fusion: 4 a value it writes, and a binary search of
/// log2(S) steps a target time. A voxelization: 3 an axis, 4 for the voxel, 1 a feature.
double operations_per_byte(const SensorJob& job);

}  // namespace amdahl

// Parts of a problem: a range of its rows or points, in the memory of the whole problem.
#pragma once

#include "sensor/ops/sensor_ops.h"
#include "sensor/ops/shard.h"

namespace amdahl {

/// Batch rows `rows` of a fusion, which write their rows of the output.
FuseProblem slice_of(const FuseProblem& whole, ItemRange rows);
/// Points `points` of a cloud, with the grid of the whole cloud.
VoxelizeProblem slice_of(const VoxelizeProblem& whole, ItemRange points);

}  // namespace amdahl

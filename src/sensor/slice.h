// Parts of a problem: some of its rows or points, in the memory of the whole.
#pragma once

#include "sensor/sensor_ops.h"
#include "sensor/shard.h"

namespace amdahl {

/// Batch rows `rows` of a fusion, written to their rows of the output.
FuseProblem slice_of(const FuseProblem& whole, ItemRange rows);
/// Points `points` of a cloud; the grid is that of the whole.
VoxelizeProblem slice_of(const VoxelizeProblem& whole, ItemRange points);

}  // namespace amdahl

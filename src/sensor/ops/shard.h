// Splits items (batch rows, points) over devices.
#pragma once

#include <cstdint>
#include <vector>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Items [begin, end).
struct ItemRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const ItemRange&) const = default;
};

/// Contiguous ranges that cover [0, num_items) in order. Sizes differ by at most one; a range may be empty.
std::vector<ItemRange> split_evenly(int64_t num_items, int num_parts);

/// As split_evenly, with sizes proportional to `weights` (not negative, not all 0). Each size is rounded down, and the
/// remaining items go to the parts with the largest remainders, the earlier part first if equal. Throws Error{usage}
/// for other weights.
std::vector<ItemRange> split_by_weight(int64_t num_items, const std::vector<double>& weights);

/// Batch rows `rows` of a fusion, which write their rows of the output.
FuseProblem slice_of(const FuseProblem& whole, ItemRange rows);
/// Points `points` of a cloud, with the grid of the whole cloud.
VoxelizeProblem slice_of(const VoxelizeProblem& whole, ItemRange points);

}  // namespace amdahl

// Splits of items (batch rows, points) over devices.
#pragma once

#include <cstdint>
#include <vector>

namespace amdahl {

/// Items [begin, end).
struct ItemRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const ItemRange&) const = default;
};

/// Contiguous ranges, in order, that together are [0, num_items); sizes differ by one at most. A range may be empty.
std::vector<ItemRange> split_evenly(int64_t num_items, int num_parts);

/// The same with sizes in proportion to `weights` (not negative, not all 0): each the floor of its share, and what is
/// left one each to the largest remainders, the earlier part first where they are equal. Error{usage} for other
/// weights.
std::vector<ItemRange> split_by_weight(int64_t num_items, const std::vector<double>& weights);

}  // namespace amdahl

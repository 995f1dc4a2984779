// Test data of collectives with exactly predictable results: small integers, computed from seed, rank and index, whose
// sums, products and averages are exact in every type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/collective_table.h"

namespace amdahl {

struct CollectiveData {
  DType type = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int world_size = 1;
  uint64_t seed = 42;

  /// Element `index` of `rank`'s send buffer.
  int64_t value(int rank, size_t index) const;
  /// Element `index` reduced over all ranks.
  int64_t reduced(size_t index) const;

  /// Writes elements [first, first + count) of `rank`'s send buffer to host memory. By all processors, as count_wrong.
  void fill(void* host, int rank, size_t first, size_t count) const;
  /// Number of received elements [first, first + count), which are at `host`, that differ bitwise from the result of
  /// collective `row`. `first_wrong` receives the index of the first one.
  size_t count_wrong(const void* host, const CollectiveRow& row, const CollectiveWorld& world, size_t first,
                     size_t count, size_t* first_wrong = nullptr) const;
};

}  // namespace amdahl

// Test data of collectives that every result can be predicted from exactly: small whole numbers, made from seed, rank
// and index alone, whose sums, products and averages no type rounds.
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
  /// The same over all ranks, reduced.
  int64_t reduced(size_t index) const;

  /// Fills `count` elements on the host, the first of which is `first`.
  void fill(void* host, int rank, size_t first, size_t count) const;
  /// Elements of `host` (the received ones [0, count)) that are not what `row` should have brought, by their bits.
  /// `first_wrong` gets the first one's index.
  size_t count_wrong(const void* host, const CollectiveRow& row, const CollectiveWorld& world, size_t count,
                     size_t* first_wrong = nullptr) const;
};

}  // namespace amdahl

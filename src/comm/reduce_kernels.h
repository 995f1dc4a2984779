// Element-wise reductions on the host in a fixed order, so that results do not depend on timing or backend.
#pragma once

#include <span>

#include "comm/communicator.h"

namespace amdahl {

/// Reduces elements [begin, end) over all `sources` in their order and writes the result to all `destinations`, which
/// may be the same arrays. f16 and bf16 accumulate in f32; integers wrap, and their averages are truncated.
struct ReduceJob {
  std::span<const void* const> sources;
  std::span<void* const> destinations;
  size_t begin = 0, end = 0;
  DType type = DType::f32;
  ReduceOp op = ReduceOp::sum;
};
void reduce_in_order(const ReduceJob& job);

/// The share of `count` elements that `rank` reduces for all ranks: [begin, end), whole cache lines, empty for the last
/// ranks of small counts.
struct ElementRange {
  size_t begin, end;
};
ElementRange share_of(size_t count, int rank, int world_size);

}  // namespace amdahl

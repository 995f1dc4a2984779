// The rows of the global batch that a rank computes.
#pragma once

#include <cstdint>

#include "amdahl/plan.h"

namespace amdahl {

struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t rows() const { return end - begin; }
};

/// Part `index` of `parts` contiguous parts of [0, total). Sizes differ by at most one, larger parts first.
RowRange even_share(int64_t total, int64_t parts, int64_t index);

/// Rows of one rank in one micro-batch, within the global batch.
RowRange micro_batch_rows(const ParallelPlan& plan, bool full_batch_everywhere, int rank, int micro_batch);

}  // namespace amdahl

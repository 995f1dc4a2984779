// The rows of the global batch that a rank computes.
#pragma once

#include <cstdint>

#include "amdahl/plan.h"
#include "base/shares.h"

namespace amdahl {

/// Rows of one rank in one micro-batch, within the global batch.
RowRange micro_batch_rows(const ParallelPlan& plan, bool full_batch_everywhere, int rank, int micro_batch);

}  // namespace amdahl

// Shares of the rows by measured speed, for heterogeneous devices.
#pragma once

#include <vector>

#include "parallel/rank_context.h"
#include "train/dataset.h"
#include "train/trainer_options.h"

namespace amdahl {

struct MeasuredShares {
  int64_t shares = kEqualShares;  // as PlanOptions::shares
  std::vector<double> speeds;     // of the data-parallel ranks, samples/s of steps without communication
};

/// Measures steps without communication on all ranks at once, first with equal shares, then with those that follow,
/// whose speeds count. Equal on all ranks. Every rank gets as many rows as the plan has micro-batches. Collective;
/// blocks. For plans with a data axis alone.
MeasuredShares measure_shares(const RankContext& rank, const TrainerOptions& options, const Dataset& data);

}  // namespace amdahl

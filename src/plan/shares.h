// Shares of rows and of other things that are counted.
#pragma once

#include <cstdint>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl {

/// Indices [begin, end), usually of rows.
struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t rows() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

/// Part `index` of `parts` contiguous parts of [0, total). Sizes differ by at most one, larger parts first.
RowRange even_share(int64_t total, int64_t parts, int64_t index);

/// Rows of the global batch that data-parallel `rank` computes: even, or by the weights of `plan.shares`, rounded to
/// the nearest row.
RowRange data_share(const ParallelPlan& plan, int rank);
/// The virtual shards of a plan that a rank computes, and the most of any rank.
RowRange virtual_shards_of(const ParallelPlan& plan, int rank);
int64_t most_virtual_shards(const ParallelPlan& plan);
/// Micro-batches of a rank, and the rows of one within the global batch: parts of its share, or with virtual_shards its
/// shards. `whole`: every rank computes the whole batch.
int64_t num_micro_batches(const ParallelPlan& plan, int rank);
RowRange micro_batch_rows(const ParallelPlan& plan, bool whole, int rank, int64_t micro_batch);
/// Rows of the largest micro-batch of any rank.
int64_t most_micro_batch_rows(const ParallelPlan& plan, bool whole);
/// Rows of the largest and of the smallest share.
int64_t most_data_rows(const ParallelPlan& plan);
int64_t fewest_data_rows(const ParallelPlan& plan);
/// The packed weights of 2 to 8 ranks of these speeds, in any unit.
int64_t shares_by_speed(const std::vector<double>& rows_per_second);

}  // namespace amdahl

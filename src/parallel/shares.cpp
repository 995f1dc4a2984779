#include "parallel/shares.h"

namespace amdahl {

RowRange micro_batch_rows(const ParallelPlan& plan, bool full_batch_everywhere, int rank, int micro_batch) {
  const RowRange mine = full_batch_everywhere ? RowRange{0, plan.global_batch} : data_share(plan, rank);
  const RowRange part = even_share(mine.rows(), static_cast<int>(plan.accumulate), micro_batch);
  return {mine.begin + part.begin, mine.begin + part.end};
}

}  // namespace amdahl

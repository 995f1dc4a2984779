#include "parallel/shares.h"

#include <algorithm>

namespace amdahl {

RowRange even_share(int64_t total, int64_t parts, int64_t index) {
  const int64_t base = total / parts, extra = total % parts;
  const int64_t begin = index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

RowRange micro_batch_rows(const ParallelPlan& plan, bool full_batch_everywhere, int rank, int micro_batch) {
  const RowRange mine =
      full_batch_everywhere ? RowRange{0, plan.global_batch} : even_share(plan.global_batch, plan.mesh.dp, rank);
  const RowRange part = even_share(mine.rows(), static_cast<int>(plan.accumulate), micro_batch);
  return {mine.begin + part.begin, mine.begin + part.end};
}

}  // namespace amdahl

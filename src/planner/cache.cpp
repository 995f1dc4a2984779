// Steps whose parameters, optimizer state and activations exceed the cache. Every step touches all of them in the same
// order, so that what does not fit is evicted before it is used again. Unit: bytes.
#include <algorithm>

#include "planner/terms.h"

namespace amdahl {

Rates spilled(const Rates& rates, double touched_bytes) {
  constexpr double kBytesPerMb = 1e6;
  if (!(rates.cache_mb > 0) || !(touched_bytes > 0)) return rates;
  const double beyond = std::max(0.0, 1 - rates.cache_mb * kBytesPerMb / touched_bytes);
  const double slower = 1 + rates.spill * beyond;
  Rates all = rates;
  all.memory_gbps /= slower, all.gemm_gbps /= slower, all.optimizer_ps *= slower;
  return all;
}

}  // namespace amdahl

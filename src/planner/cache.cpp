// Steps whose parameters, optimizer state and activations exceed the cache. Every step touches all of them in the same
// order, so that what does not fit is evicted before it is used again. Weights suffer most, because products pack them;
// other arrays are read ahead. Unit: bytes.
#include <algorithm>

#include "planner/terms.h"

namespace amdahl {

namespace {

double beyond(const Rates& rates, double touched_bytes) {
  constexpr double kBytesPerMb = 1e6;
  if (!(rates.cache_mb > 0) || !(touched_bytes > 0)) return 0;
  return std::max(0.0, 1 - rates.cache_mb * kBytesPerMb / touched_bytes);
}

}  // namespace

Rates spilled(const Rates& rates, double touched_bytes) {
  Rates all = rates;
  all.gemm_gbps /= 1 + rates.spill * beyond(rates, touched_bytes);
  all.optimizer_ps *= 1 + rates.stream_spill * beyond(rates, touched_bytes);
  return all;
}

Rates streamed(const Rates& rates, double touched_bytes) {
  const double slower = 1 + rates.stream_spill * beyond(rates, touched_bytes);
  Rates all = rates;
  all.memory_gbps /= slower, all.gemm_gbps /= slower;
  return all;
}

}  // namespace amdahl

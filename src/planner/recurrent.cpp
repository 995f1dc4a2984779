// Time of kernels that run a whole sequence. Unit: us. Their multiprocessors exchange states after every step, so that
// a step is bound by latency; a cluster that has more than two tiles of rows takes pairs of them in turn. Source:
// make_persistent_plan of ops/cuda_recurrent_launch.cuh.
#include <algorithm>
#include <cmath>

#include "planner/terms.h"

namespace amdahl {

double recurrent_us(const RecurrentWork& recurrent, const Rates& rates) {
  constexpr double kDirections = 2, kTilesAtOnce = 2;
  if (recurrent.steps <= 0) return 0;
  const double clusters = std::max(1.0, std::floor(rates.gemm_units / recurrent.blocks));
  const double turns = std::ceil(std::ceil(recurrent.tiles / clusters) / kTilesAtOnce);
  return kDirections * recurrent.steps * turns * rates.recurrent_us;
}

}  // namespace amdahl

// Time of kernels that run a whole sequence. Unit: us. Their multiprocessors exchange states after every step, so that
// a step is bound by latency; a cluster that has several tiles of rows takes pairs of them in turn. Source:
// make_persistent_plan of ops/recurrent/cuda_recurrent_launch.cuh.
#include <algorithm>
#include <cmath>

#include "planner/terms.h"

namespace amdahl {

double recurrent_us(const RecurrentWork& recurrent, const Rates& rates) {
  // Of a pair, in steps of one tile. On an H100 in bf16, a step of one tile took 0.8 us, of eight (1,024 rows of 256
  // units) 5.1, and of four (512 rows of 192 and 224 units) 3.6 and 4.2 (steps_h100_one_bf16_probes.csv,
  // results/h100/models).
  constexpr double kDirections = 2, kPair = 1.8;
  if (recurrent.steps <= 0) return 0;
  const double clusters = std::max(1.0, std::floor(rates.gemm_units / recurrent.blocks));
  const double tiles = std::ceil(recurrent.tiles / clusters), pairs = std::floor(tiles / 2);
  const double turns = kPair * pairs + (tiles - 2 * pairs);
  return kDirections * recurrent.steps * turns * rates.recurrent_us;
}

}  // namespace amdahl

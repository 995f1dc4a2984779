// Time of attention's products and of the kernels over its scores. Unit: us. FLOP: two products forward and four
// backward, 2 x batch x steps^2 x head_size each. A block of the kernel has some steps of a head: with a causal mask
// the last ones of a head compute all scores, so that the kernel takes at least the time of such a block.
#include <algorithm>
#include <cmath>

#include "planner/terms.h"

namespace amdahl {

double attention_us(const AttentionWork& attention, const Rates& rates) {
  constexpr double kProducts = 6, kFlopPerUsOfTflops = 1e6;
  const double scores = attention.batch * attention.steps * attention.steps;
  // Of a kernel with tiles those beyond the last step too.
  const double padded =
      attention.tile > 0 ? std::ceil(attention.steps / attention.tile) * attention.tile : attention.steps;
  const double products = kProducts * 2 * attention.batch * padded * padded * attention.share * attention.head_size /
                          (rates.batched_gemm_tflops * kFlopPerUsOfTflops);
  const double waves =
      attention.tile > 0 ? attention.batch * std::ceil(attention.steps / attention.tile) / rates.gemm_units : 0;
  const double longest = waves > 0 ? 1 / (waves * attention.share) : 0;
  const double idle = waves > 0 ? rates.gemm_half_waves / waves : 0;
  return products * std::max(1 + idle, longest) + memory_us(attention.score_bytes * scores, rates);
}

}  // namespace amdahl

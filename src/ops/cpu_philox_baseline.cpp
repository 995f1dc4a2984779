#include "base/philox.h"
#include "ops/cpu_philox.h"

namespace amdahl {

namespace AMDAHL_CPU_PHILOX {

void draw_columns(const Dropout& dropout, uint32_t first_block, uint32_t global_row, uint32_t step,
                  uint32_t bits[kDrawColumns]) {
  for (uint32_t block = 0; block < kDrawColumns / 4; ++block) {
    const Philox4 draw = dropout_draw(dropout.seed, first_block + block, global_row, step, dropout.layer);
    for (int i = 0; i < 4; ++i) bits[4 * block + static_cast<uint32_t>(i)] = draw.v[i];
  }
}

}  // namespace AMDAHL_CPU_PHILOX

}  // namespace amdahl

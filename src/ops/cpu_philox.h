// The dropout draw for 32 neighbouring columns at once; the build picks the file for the instruction set.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace amdahl {

inline constexpr int kDrawColumns = 32;

namespace AMDAHL_CPU_PHILOX {  // one namespace per variant

/// bits[c] is the draw of column 4 * first_block + c of `global_row`: equal to dropout_draw() of its block, word c % 4.
void draw_columns(const Dropout& dropout, uint32_t first_block, uint32_t global_row, uint32_t step,
                  uint32_t bits[kDrawColumns]);

}  // namespace AMDAHL_CPU_PHILOX

}  // namespace amdahl

// CPU operations that are compiled once only, for the baseline instruction set.
#pragma once

#include "ops/ops.h"

namespace amdahl {

void cpu_cross_entropy_loss(const CrossEntropyLoss& a);
void cpu_sum_arrays(const SumArrays& a);
void cpu_gather_rows(const float* table, const int32_t* indices, float* out, int64_t rows, int64_t width);

}  // namespace amdahl

// What follows from a math mode.
#pragma once

#include <cstdint>

#include "amdahl/plan.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// What layers convert parameters and activations to before a GEMM in this math mode.
inline DType compute_type_of(MathMode math) {
  return math == MathMode::bf16 ? DType::bf16 : math == MathMode::fp16 ? DType::f16 : DType::f32;
}

/// Most rows of a micro-batch for which a dense layer on a GPU has one kernel per direction, where has_small_kernels.
inline constexpr int64_t kSmallRows = 64;
/// Whether dense layers of few rows have kernels of their own on a GPU of architecture 9.0 or later.
inline bool has_small_kernels(MathMode math) { return math == MathMode::tf32 || math == MathMode::bf16; }

}  // namespace amdahl

// Device code of exponentials with the base 2: softmax scales its exponents by log2(e) instead.
#pragma once

#include "ops/cuda_instructions.cuh"

namespace amdahl {

inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

}  // namespace amdahl

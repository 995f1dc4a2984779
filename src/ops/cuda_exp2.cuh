// Device code of exponentials with the base 2: softmax scales its exponents by log2(e) instead.
#pragma once

namespace amdahl {

inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

/// 2^x to 2 units in the last place; results below the normal range become zero.
__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace amdahl

// f16 as in CUDA's header of this name.
#pragma once

#include "base/small_floats.h"
#include "cuda_builtins.h"

struct __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

inline float __half2float(__half value) { return amdahl::to_float(amdahl::Half{value.bits}); }
inline __half __float2half_rn(float value) { return {amdahl::to_half(value).bits}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }

// bf16 as in CUDA's header of this name.
#pragma once

#include "base/small_floats.h"
#include "cuda_builtins.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) { return amdahl::to_float(amdahl::Bfloat{value.bits}); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {amdahl::to_bfloat(value).bits}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

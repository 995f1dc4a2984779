// CUDA's qualifiers, vector types and builtin functions, as far as the emulated kernels use them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "../emulator.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static

struct Dim3 {
  unsigned x = 0, y = 0, z = 0;
};
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

using std::max;
using std::min;

inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

/// Result byte i is that of {x, y}, x first, which nibble i of the selector names.
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  const uint64_t both = static_cast<uint64_t>(y) << 32 | x;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}

template <class T>
T __ldg(const T* pointer) {
  return *pointer;
}
template <class T>
T __ldcg(const T* pointer) {
  return *pointer;
}
template <class T>
void __stcg(T* pointer, T value) {
  *pointer = value;
}

inline void __syncthreads() { amdahl::emulator::sync_block(); }
inline void __syncwarp() { amdahl::emulator::sync_warp(); }
inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* to, unsigned value) { return (*to += value) - value; }

template <class T>
struct ShuffleOperand {
  T value;
  int lane;  // whose value this lane wants
};
template <class T>
T shuffle_from(const char* name, T value, int lane) {
  using amdahl::emulator::WarpOperands;
  const ShuffleOperand<T> operand{value, lane};
  T result;
  amdahl::emulator::warp_instruction(name, &operand, &result, [](const WarpOperands& warp) {
    for (int i = 0; i < amdahl::emulator::kWarpLanes; ++i) {
      const int from = static_cast<const ShuffleOperand<T>*>(warp.in[i])->lane;
      *static_cast<T*>(warp.out[i]) = static_cast<const ShuffleOperand<T>*>(warp.in[from])->value;
    }
  });
  return result;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return shuffle_from("__shfl_xor_sync", value, static_cast<int>(threadIdx.x % 32) ^ mask);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return shuffle_from("__shfl_sync", value, lane & 31);
}

// Device functions of fusion: the search for the samples around a target time, and the interpolation between them.
#pragma once

#include "sensor/ops/cuda_launch.cuh"

namespace amdahl::sensor_cuda {

inline constexpr int kLanes = 32;
inline constexpr int kDirect = 256;  // times that a warp compares at once

/// The samples around a target and the weight of the second one; the same sample twice if it is copied.
struct alignas(16) Place {
  int before, after;
  float weight;
};

/// Number of times[0, n) below t, or at most t; the same result in all lanes of the warp.
template <bool kOrEqual>
__device__ int count_below_warp(const float* times, int n, float t) {
  const int lane = threadIdx.x % kLanes;
  int begin = 0, length = n;
  while (length > kDirect) {
    const int step = (length + kLanes - 1) / kLanes;
    const int at = begin + lane * step;
    const bool below = lane * step < length && (kOrEqual ? times[at] <= t : times[at] < t);
    const int steps = __popc(__ballot_sync(~0u, below));
    if (steps == 0) return begin;
    const int end = begin + length;
    begin += (steps - 1) * step;
    length = min(step, end - begin);
  }
  int count = 0;
#pragma unroll
  for (int k = 0; k < kDirect; k += kLanes) {
    const int at = k + lane;
    const bool below = at < length && (kOrEqual ? times[begin + at] <= t : times[begin + at] < t);
    count += __popc(__ballot_sync(~0u, below));
  }
  return begin + count;
}

template <bool kOrEqual>
__device__ int count_below_thread(const float* times, int n, float t) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    const bool below = kOrEqual ? times[middle] <= t : times[middle] < t;
    low = below ? middle + 1 : low;
    high = below ? high : middle;
  }
  return low;
}

/// RoboCache's weight, with the instructions of its build (--use_fast_math).
__device__ inline float original_weight(const float* times, int i, float t) {
  constexpr float kOriginalEpsilon = 1e-8f;
  float span, from, weight;
  asm("sub.ftz.f32 %0, %1, %2;" : "=f"(span) : "f"(times[i + 1]), "f"(times[i]));
  asm("add.ftz.f32 %0, %1, %2;" : "=f"(span) : "f"(span), "f"(kOriginalEpsilon));
  asm("sub.ftz.f32 %0, %1, %2;" : "=f"(from) : "f"(t), "f"(times[i]));
  asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(weight) : "f"(from), "f"(span));
  return weight;
}

/// Whether `below` is the number of times at most t, or below t.
template <Extrapolation kRule>
inline constexpr bool kCountsEqual = kRule != Extrapolation::linear_right;

/// `below`: see kCountsEqual.
template <Extrapolation kRule>
__device__ __forceinline__ Place place_of(const float* times, int n, float t, int below) {
  if (kRule == Extrapolation::hold) {
    const int i = below - 1;
    if (i < 0) return {0, 0, 0};
    if (i >= n - 1) return {n - 1, n - 1, 0};
    return {i, i + 1, __fdiv_rn(__fsub_rn(t, times[i]), __fsub_rn(times[i + 1], times[i]))};
  }
  if (n == 1) return {0, 0, 0};
  if (kRule == Extrapolation::linear) {
    const int i = t <= times[0] ? 0 : t >= times[n - 1] ? n - 2 : min(max(below - 1, 0), n - 2);
    return {i, i + 1, original_weight(times, i, t)};
  }
  const int at = min(below, n - 1);
  if (at == 0) return {0, 0, 0};
  return {at - 1, at, original_weight(times, at - 1, t)};
}

/// a + w (b - a): each operation rounded separately, or with the instructions of RoboCache's build.
template <Extrapolation kRule>
__device__ __forceinline__ float interpolate(float a, float b, float w) {
  if (kRule == Extrapolation::hold) return __fadd_rn(a, __fmul_rn(w, __fsub_rn(b, a)));
  float result;
  if (kRule == Extrapolation::linear) {
    asm("sub.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(b), "f"(a));
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(w), "f"(result), "f"(a));
  } else {
    float rest, right;
    asm("sub.ftz.f32 %0, 0f3F800000, %1;" : "=f"(rest) : "f"(w));
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(right) : "f"(w), "f"(b));
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(rest), "f"(a), "f"(right));
  }
  return result;
}

/// Converts a word of two elements to floats, and back.
__device__ __forceinline__ float2 unpack(uint32_t word, __nv_bfloat16) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
__device__ __forceinline__ float2 unpack(uint32_t word, __half) {
  return __half22float2(reinterpret_cast<const __half2&>(word));
}
__device__ __forceinline__ uint32_t pack(float2 pair, __nv_bfloat16) {
  const __nv_bfloat162 word = __float22bfloat162_rn(pair);
  return reinterpret_cast<const uint32_t&>(word);
}
__device__ __forceinline__ uint32_t pack(float2 pair, __half) {
  const __half2 word = __float22half2_rn(pair);
  return reinterpret_cast<const uint32_t&>(word);
}

/// Elements of two bytes are converted in pairs, because only the conversion of pairs uses a fast unit.
template <Extrapolation kRule, class T, int N>
__device__ __forceinline__ Pack<T, N> interpolate(const Pack<T, N>& a, const Pack<T, N>& b, const Place& place) {
  const bool taken = place.before == place.after;
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    using Words = Pack<uint32_t, N / 2>;
    const auto &from = reinterpret_cast<const Words&>(a), &to = reinterpret_cast<const Words&>(b);
    Words result;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float2 x = unpack(from.at[i], T{}), y = unpack(to.at[i], T{});
      const uint32_t between =
          pack({interpolate<kRule>(x.x, y.x, place.weight), interpolate<kRule>(x.y, y.y, place.weight)}, T{});
      result.at[i] = taken ? from.at[i] : between;
    }
    return reinterpret_cast<const Pack<T, N>&>(result);
  } else {
    Pack<T, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i)
      result.at[i] =
          taken ? a.at[i] : from_float<T>(interpolate<kRule>(as_float(a.at[i]), as_float(b.at[i]), place.weight));
    return result;
  }
}

}  // namespace amdahl::sensor_cuda

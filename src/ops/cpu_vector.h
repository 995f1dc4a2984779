// Vectors of f32 for the CPU kernels that are built once per instruction set, and elementary functions of them.
// Included by those files only: everything here is of one translation unit, so that the linker cannot pick a function
// built with AVX2 for a caller without it.
#pragma once

#include <stdint.h>

namespace amdahl {
namespace {

#if defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Lanes [[gnu::vector_size(kLanes * 4)]] = float;
using LaneBits [[gnu::vector_size(kLanes * 4)]] = int32_t;

/// How much of a vector a row still fills: all of it, or its first `count` lanes.
struct Whole {};
struct Part {
  int count;
};

inline Lanes broadcast(float value) { return Lanes{} + value; }

inline Lanes load(const float* from, Whole) {
  Lanes v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
/// The lanes from `part.count` on are zero.
inline Lanes load(const float* from, Part part) {
  Lanes v{};
  for (int i = 0; i < part.count; ++i) v[i] = from[i];
  return v;
}
inline void store(float* to, Lanes v, Whole) { __builtin_memcpy(to, &v, sizeof v); }
inline void store(float* to, Lanes v, Part part) {
  for (int i = 0; i < part.count; ++i) to[i] = v[i];
}
/// v with the lanes outside the part replaced by `other`.
inline Lanes only(Lanes v, Lanes, Whole) { return v; }
inline Lanes only(Lanes v, Lanes other, Part part) {
  for (int i = part.count; i < kLanes; ++i) v[i] = other[i];
  return v;
}

/// Calls body(first, Whole or Part) for the elements [0, count), a vector at a time.
template <class Body>
inline void for_each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, Whole{});
  if (i < count) body(i, Part{static_cast<int>(count - i)});
}

inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

/// Sum of the lanes, pairwise.
inline float sum_of(Lanes v) {
  float s[kLanes];
  __builtin_memcpy(s, &v, sizeof v);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) s[i] += s[i + half];
  return s[0];
}
inline float largest_of(Lanes v) {
  float largest = v[0];
  for (int i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

/// e^x with an error below 2 units in the last place, for x <= 88; zero for x < -86.9, where the result is close to the
/// smallest normal number. NaN stays NaN.
inline Lanes exp_of(Lanes x) {
  constexpr float kLog2e = 1.44269504f, kRound = 12582912.0f;          // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // n * kLn2High is exact
  const Lanes rounded = x * kLog2e + kRound;
  const Lanes n = rounded - kRound;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  // e^r = 1 + r + r^2 p(r): p interpolates at Chebyshev nodes of |r| <= ln(2) / 2, relative error 1.1e-8
  const Lanes p = 0.5f + r * (0.166665763f + r * (0.0416665561f + r * (0.00836320315f + r * 0.00139262131f)));
  const Lanes e = 1.0f + (r + r * r * p);
  const LaneBits scaled = (LaneBits)e + ((LaneBits)rounded << 23);  // e * 2^n
  return x < -86.9f ? Lanes{} : (Lanes)scaled;
}

/// s = 1 / (1 + e^-z) and its derivative s (1 - s), each with a relative error below 4 units in the last place beyond
/// that of z itself. Both are zero for z < -86.9.
struct Sigmoid {
  Lanes value, derivative;
};
inline Sigmoid sigmoid_of(Lanes z) {
  const Lanes e = exp_of(z < -87.0f ? broadcast(87.0f) : -z);
  const Lanes s = 1.0f / (1.0f + e);
  const LaneBits vanishes = z < -86.9f;
  return {vanishes ? Lanes{} : s, vanishes ? Lanes{} : s * (s * e)};
}

}  // namespace
}  // namespace amdahl

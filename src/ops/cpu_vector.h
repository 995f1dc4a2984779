// Vectors of f32 for the CPU kernels that are built once per instruction set, and elementary functions of them.
// Included by those files only: everything here is of one translation unit, so that the linker cannot pick a function
// built with AVX2 for a caller without it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Every function that a kernel calls becomes part of it: the bodies of its loops are lambdas.
#define AMDAHL_KERNEL __attribute__((flatten))

namespace amdahl {
namespace {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Lanes [[gnu::vector_size(kLanes * 4)]] = float;
using LaneBits [[gnu::vector_size(kLanes * 4)]] = int32_t;
using LaneWords [[gnu::vector_size(kLanes * 4)]] = uint32_t;

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
/// Copies `count` < kLanes floats in pieces of fixed size, without a loop per element.
inline void copy_part(float* to, const float* from, int count) {
  for (int piece = kLanes / 2; piece > 0; piece /= 2)
    if (count & piece) {
      __builtin_memcpy(to, from, static_cast<size_t>(piece) * sizeof(float));
      to += piece;
      from += piece;
    }
}
/// The lanes from `part.count` on are zero.
inline Lanes load(const float* from, Part part) {
  float values[kLanes]{};
  copy_part(values, from, part.count);
  return load(values, Whole{});
}
inline void store(float* to, Lanes v, Whole) { __builtin_memcpy(to, &v, sizeof v); }
inline void store(float* to, Lanes v, Part part) {
  float values[kLanes];
  store(values, v, Whole{});
  copy_part(to, values, part.count);
}

/// v with the lanes outside the part replaced by `other`.
inline Lanes only(Lanes v, Lanes, Whole) { return v; }
inline Lanes only(Lanes v, Lanes other, Part part) {
  LaneBits index;
  for (int i = 0; i < kLanes; ++i) index[i] = i;
  return index < part.count ? v : other;
}

/// Calls body(first, Whole or Part) for the elements [0, count), a vector at a time.
template <class Body>
inline void for_each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, Whole{});
  if (i < count) body(i, Part{static_cast<int>(count - i)});
}

/// The sum of term(first, Whole or Part) over the elements [0, count), in four sums that are added at the end. Lanes
/// outside a part must be zero.
template <class Term>
inline auto sum_over(int64_t count, const Term& term) {
  decltype(term(0, Whole{})) sums[4]{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) sums[j] += term(i + j * kLanes, Whole{});
  for (; i + kLanes <= count; i += kLanes) sums[0] += term(i, Whole{});
  if (i < count) sums[1] += term(i, Part{static_cast<int>(count - i)});
  sums[0] += sums[1];
  sums[2] += sums[3];
  sums[0] += sums[2];
  return sums[0];
}
/// Two sums at once.
struct TwoLanes {
  Lanes first, second;
  void operator+=(const TwoLanes& other) { first += other.first, second += other.second; }
};

inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
inline Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }

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

constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
constexpr float kLog2e = 1.44269504f;

/// e^x with an error below 2 units in the last place, for x <= 88; zero for x < -86.9, where the result is close to the
/// smallest normal number. NaN stays NaN.
inline Lanes exp_of(Lanes x) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // n * kLn2High is exact
  const Lanes rounded = x * kLog2e + kRound;
  const Lanes n = rounded - kRound;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  // e^r = 1 + r + r^2 p(r): p interpolates at Chebyshev nodes of |r| <= ln(2) / 2, relative error 1.1e-8
  const Lanes p = 0.5f + r * (0.166665763f + r * (0.0416665561f + r * (0.00836320315f + r * 0.00139262131f)));
  const Lanes e = 1.0f + (r + r * r * p);
  const LaneWords scaled = (LaneWords)e + ((LaneWords)rounded << 23);  // e * 2^n, modulo 2^32
  return x < -86.9f ? Lanes{} : (Lanes)scaled;
}

/// 2^x with an error below 2 units in the last place, for x in [-125, 127]. NaN stays NaN.
inline Lanes exp2_of(Lanes x) {
  const Lanes rounded = x + kRound;
  const Lanes r = x - (rounded - kRound);
  // interpolates at Chebyshev nodes of |r| <= 1 / 2, but exact at 0
  const Lanes e =
      1.0f +
      r * (0.693147182f +
           r * (0.240226507f + r * (0.0555035695f + r * (0.00961808208f + r * (0.0013390932f + r * 0.00015453223f)))));
  return (Lanes)((LaneWords)e + ((LaneWords)rounded << 23));
}

/// s = 1 / (1 + 2^-z) and s (1 - s), each with a relative error below 4 units in the last place beyond that of z. Both
/// are zero for z < -125. A NaN gives some value from 0 to 1.
struct Sigmoid {
  Lanes value, derivative;
};
inline Sigmoid sigmoid2_of(Lanes z) {
  const Lanes limit = broadcast(125.0f);
  const Lanes e = exp2_of(larger(smaller(-z, limit), -limit));
  const Lanes s = z < -125.0f ? Lanes{} : 1.0f / (1.0f + e);
  return {s, s * (s * e)};
}

}  // namespace
}  // namespace amdahl

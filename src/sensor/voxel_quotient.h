// Which voxel a coordinate is in, without a division.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace amdahl {

/// 1 / edge as a rounded float, and what that lacks as another: together within 2^-48 of it.
struct Reciprocal {
  float high, low;
};
inline Reciprocal reciprocal_of(float edge) {
  const float high = 1.0f / edge;
  return {high, static_cast<float>(std::fma(-double{high}, double{edge}, 1.0) / double{edge})};
}

/// x / edge, within 2^-47 of it before it is rounded. Two instructions; kernels have it in their own.
inline float quotient_by(const Reciprocal& reciprocal, float x) {
  return std::fma(x, reciprocal.high, x * reciprocal.low);
}

/// Whether quotient_by and the division fall between the same two whole numbers, for every x of which the quotient is
/// at most `most`, which is less than 2^22. They could only differ where x is within 2^-47 of edge times the number h
/// half way between a whole number n and the float below. Let X, E and H be their digits as whole numbers, of 24, 24
/// and 25 bits: H E, of up to 49 bits, would then be within 4 of X 2^t, and t is at least 23. H is a multiple of 2^w
/// less one, where w is 24 less the bits that n has after its first one; so modulo 2^w, -E would be within 4 of 0. It
/// cannot be 0 itself: H is odd, so that what H E has after its last one bit is more than X can hold.
inline bool divides_alike(float edge, int most) {
  const int after_first = std::bit_width(static_cast<unsigned>(most)) - 1;
  const uint32_t modulus = uint32_t{1} << (after_first == 0 ? 23 : 24 - after_first);
  const uint32_t rest = (std::bit_cast<uint32_t>(edge) & 0x7fffff) % modulus;  // the first of E's bits does not count
  return rest == 0 || (rest > 4 && rest < modulus - 4);
}

}  // namespace amdahl

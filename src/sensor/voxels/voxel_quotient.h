// Which voxel a coordinate is in, without a division.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace amdahl {

/// 1 / edge as a float, and what that lacks as another: together within 2^-47 of it.
struct Reciprocal {
  float high, low;
};
inline Reciprocal reciprocal_of(float edge) {
  float high = 1.0f / edge;
  const auto rest = [&] { return std::fma(-double{high}, double{edge}, 1.0); };
  // Of -edge / 2 times the smallest float, the quotient is half of that, which is rounded to 0. More than half is not.
  if (rest() < 0 && std::fmod(edge, 2.0f) == 0) high = std::nextafter(high, 0.0f);
  return {high, static_cast<float>(rest() / double{edge})};
}

/// x / edge, within 2^-46 of it before it is rounded. Two instructions; kernels have it in their own.
inline float quotient_by(const Reciprocal& reciprocal, float x) {
  return std::fma(x, reciprocal.high, x * reciprocal.low);
}

/// Whether quotient_by and the division fall between the same two whole numbers, for every x of which the quotient is
/// at most `most`, which is less than 2^22. They could only differ where x is within 2^-46 of edge times the number h
/// half way between a whole number n and the float below. Let X, E and H be their digits as whole numbers, of 24, 24
/// and 25 bits: H E, of up to 49 bits, would then be within 8 of X 2^t, and t is at least 23. H is a multiple of 2^w
/// less one, where w is 24 less the bits that n has after its first one; so modulo 2^w, -E would be within 8 of 0. It
/// cannot be 0 itself: H is odd, so that what H E has after its last one bit is more than X can hold.
inline bool divides_equally(float edge, int most) {
  constexpr uint32_t kNear = 8;
  const int after_first = std::bit_width(static_cast<unsigned>(most)) - 1;
  const uint32_t modulus = uint32_t{1} << (after_first == 0 ? 23 : 24 - after_first);
  const uint32_t rest = (std::bit_cast<uint32_t>(edge) & 0x7fffff) % modulus;  // the first of E's bits does not count
  return rest == 0 || (rest > kNear && rest + kNear < modulus);
}

}  // namespace amdahl

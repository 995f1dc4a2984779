// Division of coordinates by the voxel's edge, as a multiplication that gives the same voxel.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace amdahl {

/// 1 / edge as a float and the rest as another float; the relative error of their sum is below 2^-47.
struct Reciprocal {
  float high, low;
};
inline Reciprocal reciprocal_of(float edge) {
  float high = 1.0f / edge;
  const auto rest = [&] { return std::fma(-double{high}, double{edge}, 1.0); };
  // For x = -edge / 2 times the smallest float, the quotient is half of the smallest float and rounds to 0; a product
  // above half would not.
  if (rest() < 0 && std::fmod(edge, 2.0f) == 0) high = std::nextafter(high, 0.0f);
  return {high, static_cast<float>(rest() / double{edge})};
}

/// x / edge with a relative error below 2^-46 before rounding. Kernels use the same two instructions.
inline float quotient_by(const Reciprocal& reciprocal, float x) {
  return std::fma(x, reciprocal.high, x * reciprocal.low);
}

/// Whether floor(quotient_by) equals floor(x / edge) for every x with a quotient up to `most`, which is less than 2^22.
/// Proof: they can only differ if x is within a relative 2^-46 of edge * h, where h is half way between an integer n
/// and the float below n. Let X, E and H be the significands of x, edge and h as integers of 24, 24 and 25 bits. Then H
/// E, of up to 49 bits, is within 8 of X 2^t with t >= 23. H is -1 modulo 2^w, where w is 24 minus the number of bits
/// of n after its leading one. So modulo 2^w, -E is within 8 of 0. It cannot be 0: H is odd, so H E would have more
/// significant bits than X.
inline bool divides_equally(float edge, int most) {
  constexpr uint32_t kNear = 8;
  const int after_first = std::bit_width(static_cast<unsigned>(most)) - 1;
  const uint32_t modulus = uint32_t{1} << (after_first == 0 ? 23 : 24 - after_first);
  const uint32_t rest = (std::bit_cast<uint32_t>(edge) & 0x7fffff) % modulus;  // without E's leading bit
  return rest == 0 || (rest > kNear && rest + kNear < modulus);
}

}  // namespace amdahl

// bf16 and f16 on the host: conversions to and from float, rounded to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace amdahl {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

inline float to_float(Bfloat value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

inline Bfloat to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded)};  // keep NaN a NaN
}

inline float to_float(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // Exponent and fraction of a half, read as a float, are too small by 2^112; the multiplication is exact, also for
  // subnormals.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}

inline Half to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to 65,536 or more
  if (magnitude < 0x38800000u) {  // a subnormal half: adding 0.5 makes the FPU round at 2^-24
    const auto rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    return {static_cast<uint16_t>(sign | rounded)};
  }
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13))};
}

}  // namespace amdahl

// The scale of a block of int8 codes: a power of two, so that products and remainders are exact.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace amdahl {

/// Biased exponent of the least power of two for which magnitudes up to that of `bits` (a positive finite float) have
/// codes of at most 127: of the scale; that of its inverse is 254 minus it.
AMDAHL_HOST_DEVICE uint32_t int8_exponent(uint32_t bits) {
  constexpr uint32_t kCodeBits = 6, kAbove127 = 0x7e0000u;  // fraction of 127 / 64
  const uint32_t exponent = bits >> 23, up = (bits & 0x7fffffu) > kAbove127 ? 1u : 0u;
  return exponent + up > kCodeBits ? exponent + up - kCodeBits : 1u;
}

inline constexpr uint32_t kMagnitudeBits = 0x7fffffffu, kInfinityBits = 0x7f800000u;

}  // namespace amdahl

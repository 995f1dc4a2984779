// Bit patterns that identify transfer errors: every byte is a function of its offset. The destination holds the
// complement before a transfer, so that bytes that were not written are distinguished from changed ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/philox.h"

namespace amdahl {

enum class Pattern : uint8_t { zeros, ones, checkerboard, walking_one, address, random };

inline constexpr std::array<Pattern, 6> kPatterns{Pattern::zeros,       Pattern::ones,    Pattern::checkerboard,
                                                  Pattern::walking_one, Pattern::address, Pattern::random};

constexpr std::string_view to_string(Pattern pattern) {
  constexpr std::array<std::string_view, 6> names{"zeros", "ones", "checkerboard", "walking one", "address", "random"};
  return names[static_cast<size_t>(pattern)];
}

/// The 8 bytes of a pattern at byte offset 8 x index, little-endian.
AMDAHL_HOST_DEVICE uint64_t pattern_word(Pattern pattern, uint64_t seed, uint64_t index) {
  switch (pattern) {
    case Pattern::zeros:
      return 0;
    case Pattern::ones:
      return ~uint64_t{0};
    case Pattern::checkerboard:
      return index % 2 == 0 ? 0x5555555555555555u : 0xAAAAAAAAAAAAAAAAu;
    case Pattern::walking_one:
      return uint64_t{1} << (index % 64);
    case Pattern::address:  // words of a buffer are unique; buffers with other seeds differ in the high half
      return (index * 8) ^ (seed << 40);
    case Pattern::random:
      break;
  }
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;  // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Differences from a pattern.
struct PatternFault {
  uint64_t bad_bytes = 0;
  uint64_t first_offset = ~uint64_t{0};  // of the first bad byte; only meaningful when there is one
  uint64_t zero_bytes = 0;               // bad bytes that are 0
  uint64_t stale_bytes = 0;              // bad bytes that still hold the complement

  bool found() const { return bad_bytes > 0; }
  /// "zeroed", "stale" (never written), "bits flipped", or "mixed".
  std::string_view kind() const {
    if (stale_bytes == bad_bytes) return "stale";
    if (zero_bytes == bad_bytes) return "zeroed";
    return zero_bytes + stale_bytes == 0 ? "bits flipped" : "mixed";
  }
};

/// Adds byte `found` at `offset`, whose pattern byte is `wanted`, to `fault`.
AMDAHL_HOST_DEVICE void judge_byte(PatternFault& fault, uint64_t offset, uint8_t wanted, uint8_t found) {
  if (found == wanted) return;
  ++fault.bad_bytes;
  if (offset < fault.first_offset) fault.first_offset = offset;
  if (found == static_cast<uint8_t>(~wanted))
    ++fault.stale_bytes;
  else if (found == 0)
    ++fault.zero_bytes;
}

/// The byte of a pattern at `offset`.
AMDAHL_HOST_DEVICE uint8_t pattern_byte(Pattern pattern, uint64_t seed, uint64_t offset) {
  return static_cast<uint8_t>(pattern_word(pattern, seed, offset / 8) >> (offset % 8 * 8));
}

}  // namespace amdahl

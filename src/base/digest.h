// A digest to detect changed contents. Not cryptographic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amdahl {

/// XXH3 of the bytes, 64 bits.
uint64_t digest_of(std::string_view bytes);
/// As 16 hexadecimal digits.
std::string digest_text(std::string_view bytes);

/// FNV-1a, 64 bits, of a sequence of values. Identities and facts of stored runs contain it, so that it stays beside
/// the other digest.
class Fnv1a {
 public:
  void add(uint32_t value) { hash_ = (hash_ ^ value) * 0x100000001b3u; }
  uint64_t hash() const { return hash_; }
  /// As 16 hexadecimal digits.
  std::string text() const;

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace amdahl

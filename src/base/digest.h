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

}  // namespace amdahl

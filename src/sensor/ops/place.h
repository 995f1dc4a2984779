// Offsets of consecutive, aligned pieces in one block of device memory.
#pragma once

#include <cstddef>

namespace amdahl {

/// Returns the aligned offset of a piece of `bytes` bytes at or after `end`, and sets `end` to the end of that piece.
inline size_t place(size_t& end, size_t bytes) {
  constexpr size_t kAlign = 256;
  const size_t begin = (end + kAlign - 1) / kAlign * kAlign;
  end = begin + bytes;
  return begin;
}

}  // namespace amdahl

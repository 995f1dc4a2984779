// Where pieces of a block of device memory lie, one behind the other.
#pragma once

#include <cstddef>

namespace amdahl {

/// The offset of `bytes` bytes placed at `end` or a little behind, for any alignment; `end` is then theirs.
inline size_t place(size_t& end, size_t bytes) {
  constexpr size_t kAlign = 256;
  const size_t begin = (end + kAlign - 1) / kAlign * kAlign;
  end = begin + bytes;
  return begin;
}

}  // namespace amdahl

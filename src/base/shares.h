// Even shares of rows and of other things that are counted.
#pragma once

#include <cstdint>

namespace amdahl {

/// Indices [begin, end), usually of rows.
struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t rows() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

/// Part `index` of `parts` contiguous parts of [0, total). Sizes differ by at most one, larger parts first.
RowRange even_share(int64_t total, int64_t parts, int64_t index);

}  // namespace amdahl

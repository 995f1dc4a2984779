// Gradient buckets: contiguous runs of the parameter layout, in the order in which backward completes them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameter_layout.h"

namespace amdahl {

struct Bucket {
  int64_t begin = 0, end = 0;  // floats of the layout
  int64_t gradients = 0;       // floats of it that backward makes: all but the statistics block
  int64_t floats() const { return end - begin; }
};

/// Neighbouring pieces, a new bucket whenever the next piece would exceed `bucket_bytes`. The first bucket also holds the
/// statistics block. Covers the whole layout without gaps.
std::vector<Bucket> make_buckets(const std::vector<GradientPiece>& pieces, int64_t bucket_bytes);

}  // namespace amdahl

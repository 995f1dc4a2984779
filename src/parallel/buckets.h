// Gradient buckets: contiguous runs of the parameter layout, in the order in which backward completes them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameter_layout.h"

namespace amdahl {

struct Bucket {
  int64_t begin = 0, end = 0;  // floats of the layout
  size_t last_layer = 0;       // the bucket is ready once this layer's gradients are
  int64_t floats() const { return end - begin; }
};

/// Layers from last to first, a new bucket whenever the next layer would exceed `bucket_bytes`. The first bucket also
/// holds the statistics block. Covers the whole layout without gaps.
std::vector<Bucket> make_buckets(const ParameterLayout& layout, int64_t bucket_bytes);

}  // namespace amdahl

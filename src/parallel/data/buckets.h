// Gradient buckets: contiguous runs of the parameter layout, in the order in which backward completes them.
#pragma once

#include <cstdint>
#include <vector>

#include "amdahl/plan.h"
#include "model/parameter_layout.h"

namespace amdahl {

struct Bucket {
  int64_t begin = 0, end = 0;  // floats of the layout
  int64_t floats() const { return end - begin; }
};

/// Groups neighbouring pieces; a new bucket starts whenever the next piece would exceed `bucket_bytes`. The buckets
/// cover the whole layout without gaps.
std::vector<Bucket> make_buckets(const std::vector<GradientPiece>& pieces, int64_t bucket_bytes);
/// The buckets of a plan.
std::vector<Bucket> make_buckets(const ParameterLayout& layout, const ParallelPlan& plan);

/// A bucket divided among ranks: a short front that all ranks hold, then one part per rank. Parts have equal sizes in
/// whole cache lines.
struct Shards {
  int64_t begin = 0;  // of the front, floats of the layout
  int64_t parts = 0;  // end of the front, begin of rank 0's part
  int64_t part_floats = 0;
  FloatRange front() const { return {begin, parts}; }
  FloatRange part(int rank) const { return {parts + rank * part_floats, parts + (rank + 1) * part_floats}; }
};
Shards divide(const Bucket& bucket, int num_ranks);

}  // namespace amdahl

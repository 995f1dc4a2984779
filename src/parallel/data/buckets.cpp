#include "parallel/data/buckets.h"

#include "plan/zero_units.h"

namespace amdahl {

std::vector<Bucket> make_buckets(const std::vector<GradientPiece>& pieces, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  Bucket current;
  for (const GradientPiece& piece : pieces) {
    const int64_t grown_bytes = (piece.end - current.begin) * static_cast<int64_t>(sizeof(float));
    if (current.floats() > 0 && grown_bytes > bucket_bytes) {
      buckets.push_back(current);
      current = {current.end, current.end};
    }
    current.end = piece.end;
  }
  buckets.push_back(current);
  return buckets;
}

std::vector<Bucket> make_buckets(const ParameterLayout& layout, const ParallelPlan& plan) {
  return make_buckets(make_pieces(layout, plan.bucket_bytes), plan.bucket_bytes);
}

Shards divide(const Bucket& bucket, int num_ranks) {
  const UnitParts parts = divide_unit(bucket.floats(), num_ranks);
  return {bucket.begin, bucket.begin + parts.front, parts.part};
}

}  // namespace amdahl

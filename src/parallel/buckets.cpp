#include "parallel/buckets.h"

namespace amdahl {

std::vector<Bucket> make_buckets(const std::vector<GradientPiece>& pieces, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  Bucket current;
  for (const GradientPiece& piece : pieces) {
    const int64_t grown_bytes = (piece.end - current.begin) * static_cast<int64_t>(sizeof(float));
    if (current.gradients > 0 && grown_bytes > bucket_bytes) {
      buckets.push_back(current);
      current = {current.end, current.end, 0};
    }
    current.end = piece.end;
    current.gradients += piece.end - piece.begin;
  }
  buckets.push_back(current);
  return buckets;
}

}  // namespace amdahl

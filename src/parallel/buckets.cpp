#include "parallel/buckets.h"

namespace amdahl {

std::vector<Bucket> make_buckets(const ParameterLayout& layout, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  Bucket current{0, 0, 0};
  for (size_t i = layout.layers.size(); i-- > 0;) {
    const int64_t grown = layout.layers[i].end - current.begin;
    const bool has_layer = current.end > 0;
    if (has_layer && grown * static_cast<int64_t>(sizeof(float)) > bucket_bytes) {
      buckets.push_back(current);
      current.begin = current.end;
    }
    current.end = layout.layers[i].end;
    current.last_layer = i;
  }
  buckets.push_back(current);
  return buckets;
}

}  // namespace amdahl

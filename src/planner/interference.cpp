// Communication behind backward: what stays exposed, and how much slower backward gets meanwhile. Unit: us.
#include <algorithm>

#include "planner/terms.h"

namespace amdahl {

Overlap overlap_of(double communication, double backward, int buckets, const Rates& rates) {
  const double last = communication / std::max(1, buckets);
  const double hidden = std::min(communication - last, backward * (1 - 1.0 / std::max(1, buckets)));
  return {communication - hidden, rates.interference * hidden};
}

}  // namespace amdahl

// What runs at once: communication behind backward, and devices that share a host. Unit: us.
#include <algorithm>

#include "planner/terms.h"

namespace amdahl {

Overlap overlap_of(double communication, double backward, int buckets, const Rates& rates) {
  const double last = communication / std::max(1, buckets);
  const double hidden = std::min(communication - last, backward * (1 - 1.0 / std::max(1, buckets)));
  return {communication - hidden, rates.interference * hidden};
}

double sharing_factor(int devices, const Rates& rates) {
  const double oversubscribed = rates.shared_cores > 0 ? std::max(1.0, devices / rates.shared_cores) : 1;
  return oversubscribed * (1 + rates.sharing * (devices - 1));
}

}  // namespace amdahl

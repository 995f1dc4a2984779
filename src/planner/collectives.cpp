// Time of collectives and transfers: latency plus bytes over rate. Unit: us. Source of the ring's factor 2 (n - 1) / n:
// Patarasuk and Yuan, 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
#include "planner/terms.h"

namespace amdahl {
namespace {
constexpr double kBytesPerUsOfGbps = 1e3;
}

double all_reduce_us(double bytes, int devices, double alpha_us, double gbps) {
  if (devices < 2) return 0;
  return alpha_us + 2.0 * (devices - 1) / devices * bytes / (gbps * kBytesPerUsOfGbps);
}

double ramp_us(double bytes, const Rates& rates) {
  constexpr double kRampBytes = 4e6;
  return rates.ramp_us * bytes / (bytes + kRampBytes);
}

double transfer_us(double bytes, double alpha_us, double gbps) { return alpha_us + bytes / (gbps * kBytesPerUsOfGbps); }

}  // namespace amdahl

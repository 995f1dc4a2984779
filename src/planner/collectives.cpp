// Time of collectives and transfers: latency plus bytes over rate. Unit: us. Source of the ring's factor 2 (n - 1) / n:
// Patarasuk and Yuan, 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
#include <algorithm>

#include "planner/terms.h"

namespace amdahl {
namespace {
constexpr double kBytesPerUsOfGbps = 1e3;
}

double all_reduce_us(double bytes, int devices, double alpha_us, double gbps) {
  if (devices < 2) return 0;
  return alpha_us + 2.0 * (devices - 1) / devices * bytes / (gbps * kBytesPerUsOfGbps);
}

GroupPath path_of(int devices, int stride, const GroupPath& within, const Rates& rates) {
  if (rates.node_devices <= 0 || devices * static_cast<double>(stride) <= rates.node_devices) return within;
  const double members = std::clamp(rates.node_devices / stride, 1.0, rates.node_devices);
  return {within.alpha_us + rates.net_us, std::min(within.gbps, rates.net_gbps * members / rates.node_devices)};
}

GroupPath transfer_path(int stride, int devices, const GroupPath& within, const Rates& rates) {
  if (rates.node_devices <= 0 || devices <= rates.node_devices) return within;
  const double senders = std::min(static_cast<double>(stride), rates.node_devices);
  return {within.alpha_us + rates.net_us, std::min(within.gbps, rates.net_gbps / senders)};
}

double ramp_us(double bytes, const Rates& rates) {
  constexpr double kRampBytes = 4e6;
  return rates.ramp_us * bytes / (bytes + kRampBytes);
}

double transfer_us(double bytes, double alpha_us, double gbps) { return alpha_us + bytes / (gbps * kBytesPerUsOfGbps); }

}  // namespace amdahl

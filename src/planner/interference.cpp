// What runs at once: communication behind backward, and devices that share a host. Unit: us.
#include <algorithm>
#include <cmath>

#include "planner/terms.h"

namespace amdahl {

Overlap overlap_of(double communication, double backward, int buckets, const Rates& rates) {
  const double last = communication / std::max(1, buckets);
  const double hidden = std::min(communication - last, backward * (1 - 1.0 / std::max(1, buckets)));
  return {communication - hidden, rates.interference * hidden};
}

double oversubscription(double devices, const Rates& rates) {
  return rates.shared_cores > 0 ? std::max(1.0, devices / rates.shared_cores) : 1;
}

double crowd_us(int devices, const Rates& rates) {
  return rates.shared_cores > 0 ? rates.crowd_us * std::max(0.0, devices - rates.shared_cores) : 0;
}

double sharing_factor(double devices, const Rates& rates) {
  const bool shares = rates.shared_cores > 0;
  const double with_core = shares ? std::min(devices, rates.shared_cores) : devices;
  return oversubscription(devices, rates) * (1 + rates.sharing * std::max(0.0, with_core - 1));
}

std::vector<double> pipeline_slowdowns(int ranks, int devices_of_rank, const Rates& rates) {
  std::vector<double> slowdowns;
  for (int working = 1; working <= ranks; ++working)
    slowdowns.push_back(sharing_factor(working * devices_of_rank, rates) / sharing_factor(devices_of_rank, rates));
  return slowdowns;
}

double pipeline_sharing(int ranks, int devices_of_rank, double busy, const Rates& rates) {
  const double part = std::clamp(busy, 1e-6, 1.0);
  // Chances of so many ranks at work at once, of those times when one is: binomial, without its 0.
  double chance = std::pow(1 - part, ranks), all = 0, sum = 0;
  for (int working = 1; working <= ranks; ++working) {
    chance = part < 1 ? chance * (ranks - working + 1) / working * part / (1 - part) : (working == ranks ? 1.0 : 0.0);
    all += chance;
    sum += chance * sharing_factor(working * devices_of_rank, rates);
  }
  return sum / all;
}

}  // namespace amdahl

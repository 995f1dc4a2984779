// Time of the host, and of host and device at work at once. Unit: us. A group's collective starts when its slowest host
// has enqueued it: the expected largest of n delays grows about with log n.
#include <cmath>

#include "planner/terms.h"

namespace amdahl {

double host_us(const LayerWork& layer, int tp, const Rates& rates) {
  switch (layer.host) {
    case LayerWork::Host::head:
      return rates.head_us;
    case LayerWork::Host::input:
      return rates.input_us;
    case LayerWork::Host::block:
      break;
  }
  const double collectives = tp > 1 ? layer.collectives * (1 + layer.repeated_collectives) *
                                          (rates.collective_launch_us + rates.collective_wait_us * std::log2(tp))
                                    : 0;
  return (layer.kernels + layer.repeated_kernels) * rates.launch_us + layer.events * rates.event_us +
         layer.extra_kernels * rates.softmax_launch_us + collectives;
}

double queue_us(double device_us, double host_us, const Rates& rates) {
  const double larger = std::max(device_us, host_us), smaller = std::min(device_us, host_us);
  if (smaller <= 0) return larger;
  return larger * std::pow(1 + std::pow(smaller / larger, rates.queue_exponent), 1 / rates.queue_exponent);
}

}  // namespace amdahl

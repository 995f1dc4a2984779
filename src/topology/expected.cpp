#include "topology/expected.h"

#include <algorithm>

#include "topology/nvml_topology.h"

namespace amdahl {

double nvlink_efficiency(int version) {
  constexpr double kMeasuredOnHopper = 0.875, kFlits = 16.0 / 17.0;
  return version == 4 ? kMeasuredOnHopper : kFlits;
}

double pcie_efficiency() {
  constexpr double kPayload = 256, kOverhead = 24, kAcknowledgements = 0.02;
  return kPayload / (kPayload + kOverhead) * (1 - kAcknowledgements);
}

double expected_host_gbps(const DeviceSpec& device) {
  return pcie_gbps(device.pcie_generation, device.pcie_lanes) * pcie_efficiency();
}

void expect_rates(MachineSpec& machine) {
  const auto host_gbps = [&](int index) {
    for (const DeviceSpec& device : machine.devices)
      if (device.index == index) return expected_host_gbps(device);
    return 0.0;
  };
  for (LinkSpec& link : machine.links) {
    if (link.path == PathKind::nvlink)
      link.expected_gbps = link.raw_gbps * nvlink_efficiency(link.nvlink_version);
    else if (link.path != PathKind::host && link.peer_access)
      link.expected_gbps = std::min(host_gbps(link.source), host_gbps(link.destination));
  }
}

}  // namespace amdahl

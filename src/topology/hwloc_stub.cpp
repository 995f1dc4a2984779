// Used in a build without hwloc: the processor's name and NUMA nodes stay unknown.
#include "topology/host_probe.h"

namespace amdahl {

CpuTopology probe_cpu_topology() { return {}; }
PciPlaces probe_pci_places(const std::vector<std::string>&) { return {}; }
Availability hwloc_availability() {
  return {false, "built without hwloc", "apt-get install libhwloc-dev, then configure again"};
}
std::string hwloc_version() { return {}; }

}  // namespace amdahl

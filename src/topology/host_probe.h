// The host: processor, cores, NUMA nodes, memory.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/machine.h"

namespace amdahl {

/// Host part of a MachineSpec; the devices are added by the caller.
MachineSpec probe_host();

/// Facts from hwloc that the kernel's basic interfaces do not provide.
struct CpuTopology {
  std::string cpu_name;  // empty when unknown
  int num_numa_nodes = 1;
};
CpuTopology probe_cpu_topology();

/// Location of devices in the machine, by hwloc.
struct PciPlaces {
  std::vector<NumaNode> numa_nodes;
  std::map<std::string, int> numa_of;                             // node nearest to a device, by its PCI address
  std::map<std::pair<std::string, std::string>, PathKind> paths;  // between two devices, both orders
  std::vector<std::string> bridges;                               // PCI bridges above the devices, by address
};
/// Devices that hwloc does not find are left out.
PciPlaces probe_pci_places(const std::vector<std::string>& bus_ids);
Availability hwloc_availability();
std::string hwloc_version();

}  // namespace amdahl

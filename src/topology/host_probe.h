// What the host is: processor, cores, NUMA nodes, memory.
#pragma once

#include "amdahl/machine.h"

namespace amdahl {

/// Host part of a MachineSpec; the devices are added by the caller.
MachineSpec probe_host();

/// What hwloc knows beyond the kernel's basic interfaces.
struct CpuTopology {
  std::string cpu_name;  // empty when unknown
  int num_numa_nodes = 1;
};
CpuTopology probe_cpu_topology();
Availability hwloc_availability();
std::string hwloc_version();

}  // namespace amdahl

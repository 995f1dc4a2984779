#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "topology/host_probe.h"

namespace amdahl {

CpuTopology probe_cpu_topology() {
  CpuTopology result;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return result;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) return result;
  result.num_numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_NUMANODE));
  const hwloc_obj_t package = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PACKAGE, 0);
  const char* name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
  if (name) result.cpu_name = name;
  return result;
}

Availability hwloc_availability() { return {true, {}, {}}; }

std::string hwloc_version() {
  const unsigned version = hwloc_get_api_version();
  return fmt::format("{}.{}.{}", version >> 16, (version >> 8) & 0xff, version & 0xff);
}

}  // namespace amdahl

// PCI location of devices: the tree of bridges above them, and its NUMA node.
#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <set>

#include "topology/host_probe.h"

namespace amdahl {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load_with_io() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

bool is_pci_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

bool is_host_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

std::vector<hwloc_obj_t> ancestors(hwloc_obj_t object) {
  std::vector<hwloc_obj_t> chain;
  for (hwloc_obj_t at = object->parent; at; at = at->parent) chain.push_back(at);
  return chain;
}

/// The definitions of `nvidia-smi topo`: PIX within one PCIe switch, PXB across several, PHB through the host bridge,
/// NODE between host bridges of one NUMA node, SYS between NUMA nodes.
PathKind path_between(hwloc_obj_t a, hwloc_obj_t b) {
  const std::vector<hwloc_obj_t> above_a = ancestors(a), above_b = ancestors(b);
  for (size_t i = 0; i < above_a.size(); ++i) {
    const auto common = std::find(above_b.begin(), above_b.end(), above_a[i]);
    if (common == above_b.end()) continue;
    if (is_host_bridge(*common)) return PathKind::phb;
    if (is_pci_bridge(*common)) {
      // A switch is one upstream bridge and one downstream bridge per port: one bridge between each device and the
      // common one.
      const size_t between = std::max(i, static_cast<size_t>(common - above_b.begin()));
      return between <= 1 ? PathKind::pix : PathKind::pxb;
    }
    break;
  }
  const auto node_of = [](const std::vector<hwloc_obj_t>& above) {
    const auto host = std::find_if(above.begin(), above.end(), [](hwloc_obj_t object) { return object->nodeset; });
    return host == above.end() ? nullptr : (*host)->nodeset;
  };
  const auto *nodes_a = node_of(above_a), *nodes_b = node_of(above_b);
  const bool one = nodes_a && nodes_b && hwloc_bitmap_isequal(nodes_a, nodes_b) && hwloc_bitmap_weight(nodes_a) == 1;
  return one ? PathKind::node : PathKind::sys;
}

int numa_of(hwloc_obj_t device) {
  for (hwloc_obj_t at : ancestors(device))
    if (at->nodeset) return hwloc_bitmap_weight(at->nodeset) == 1 ? hwloc_bitmap_first(at->nodeset) : -1;
  return -1;
}

std::string address_of(hwloc_obj_t object) {
  const auto& pci = object->type == HWLOC_OBJ_BRIDGE ? object->attr->bridge.upstream.pci : object->attr->pcidev;
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", pci.domain, pci.bus, pci.dev, pci.func);
}

std::vector<NumaNode> read_numa_nodes(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));) {
    char* cores = nullptr;
    if (hwloc_bitmap_list_asprintf(&cores, node->cpuset) < 0) continue;
    nodes.push_back({static_cast<int>(node->os_index), cores, static_cast<int64_t>(node->attr->numanode.local_memory)});
    free(cores);
  }
  return nodes;
}

}  // namespace

PciPlaces probe_pci_places(const std::vector<std::string>& bus_ids) {
  PciPlaces places;
  const Topology topology = load_with_io();
  if (!topology) return places;
  places.numa_nodes = read_numa_nodes(topology.get());
  std::map<std::string, hwloc_obj_t> found;
  std::set<std::string> bridges;
  for (const std::string& bus_id : bus_ids) {
    const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology.get(), bus_id.c_str());
    if (!device) continue;
    found[bus_id] = device;
    places.numa_of[bus_id] = numa_of(device);
    for (hwloc_obj_t above : ancestors(device))
      if (is_pci_bridge(above)) bridges.insert(address_of(above));
  }
  places.bridges.assign(bridges.begin(), bridges.end());
  for (const auto& [a, device_a] : found)
    for (const auto& [b, device_b] : found)
      if (a != b) places.paths[{a, b}] = path_between(device_a, device_b);
  return places;
}

}  // namespace amdahl

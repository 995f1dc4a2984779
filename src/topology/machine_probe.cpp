#include "topology/machine_probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/device.h"
#include "topology/expected.h"
#include "topology/host_probe.h"
#include "topology/nvml_topology.h"
#include "topology/pci_isolation.h"

namespace amdahl {
namespace {

void add_virtual_devices(MachineSpec& machine, int count) {
  for (const auto& device : make_cpu_devices(count)) machine.devices.push_back(device->spec());
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      LinkSpec link;
      link.source = from, link.destination = to;
      link.path = PathKind::host;
      link.peer_access = link.peer_atomics = true;  // threads of one process
      machine.links.push_back(link);
    }
}

const DeviceSpec* device_at(const std::vector<DeviceSpec>& devices, const std::string& bus_id) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const DeviceSpec& device) { return device.pci_bus_id == bus_id; });
  return found == devices.end() ? nullptr : &*found;
}

/// Adds NVML's facts to a device that the runtime lists.
void complete(DeviceSpec& device, const DeviceSpec& known) {
  device.pcie_generation = known.pcie_generation;
  device.pcie_lanes = known.pcie_lanes;
  device.num_links = known.num_links;
  device.num_links_down = known.num_links_down;
}

/// The runtime's devices in its order when it runs, because a variable may hide or reorder them, completed by NVML.
void add_gpus(MachineSpec& machine, const NvmlTopology& driver) {
  machine.devices = list_cuda_devices();
  if (machine.devices.empty()) {
    machine.devices = driver.devices;
    machine.links = driver.links;
    return;
  }
  for (DeviceSpec& device : machine.devices)
    if (const DeviceSpec* known = device_at(driver.devices, device.pci_bus_id)) complete(device, *known);
  for (const PeerAbility& peer : list_cuda_peers()) {
    LinkSpec link;
    const DeviceSpec* from = device_at(driver.devices, machine.devices[static_cast<size_t>(peer.source)].pci_bus_id);
    const DeviceSpec* to = device_at(driver.devices, machine.devices[static_cast<size_t>(peer.destination)].pci_bus_id);
    for (const LinkSpec& known : driver.links)
      if (from && to && known.source == from->index && known.destination == to->index) link = known;
    link.source = peer.source, link.destination = peer.destination;
    link.peer_access = peer.access, link.peer_atomics = peer.atomics;
    machine.links.push_back(link);
  }
}

void add_places(MachineSpec& machine, const std::string& sysfs, bool driver_knows_paths) {
  std::vector<std::string> bus_ids;
  for (const DeviceSpec& device : machine.devices) bus_ids.push_back(device.pci_bus_id);
  const PciPlaces places = probe_pci_places(bus_ids);
  machine.numa_nodes = places.numa_nodes;
  if (!machine.numa_nodes.empty()) machine.num_numa_nodes = static_cast<int>(machine.numa_nodes.size());
  for (DeviceSpec& device : machine.devices)
    if (const auto found = places.numa_of.find(device.pci_bus_id); found != places.numa_of.end())
      device.numa_node = found->second;
  for (LinkSpec& link : machine.links) {
    if (driver_knows_paths || link.path == PathKind::nvlink || link.path == PathKind::host) continue;
    const auto bus_id = [&](int index) { return machine.devices[static_cast<size_t>(index)].pci_bus_id; };
    const auto found = places.paths.find({bus_id(link.source), bus_id(link.destination)});
    if (found != places.paths.end()) link.path = found->second;
  }
  machine.iommu = read_iommu(sysfs);
  machine.acs = fmt::format("{}", fmt::join(redirecting_bridges(sysfs, places.bridges), " "));
}

}  // namespace

MachineSpec probe_machine(const std::string& sysfs, int virtual_devices) {
  MachineSpec machine = probe_host();
  for (const auto& [name, value] : cuda_versions()) machine.versions[name] = value;
  const std::shared_ptr<Nvml> nvml = Nvml::open();
  bool driver_knows_paths = false;
  if (virtual_devices > 0) {
    add_virtual_devices(machine, virtual_devices);
  } else if (nvml) {
    const NvmlTopology driver = read_nvml_topology(*nvml);
    driver_knows_paths = driver.knows_paths;
    add_gpus(machine, driver);
    if (const std::string version = nvml->driver_version(); !version.empty()) machine.versions["driver"] = version;
  } else {
    add_gpus(machine, {});
  }
  add_places(machine, sysfs, driver_knows_paths);
  expect_rates(machine);
  return machine;
}

}  // namespace amdahl

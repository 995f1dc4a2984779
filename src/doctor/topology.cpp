// Findings from the topology, without any measurement.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "doctor/findings.h"

namespace amdahl {
namespace {

bool are_gpus(const MachineSpec& machine) { return !machine.devices.empty() && machine.devices.front().kind == "cuda"; }

/// Whether the data of some pair cross PCIe rather than NVLink.
bool some_pair_on_pcie(const MachineSpec& machine) {
  return std::any_of(machine.links.begin(), machine.links.end(),
                     [](const LinkSpec& link) { return link.path != PathKind::nvlink && link.path != PathKind::host; });
}

Findings no_peer_access(const Evidence& evidence) {
  Findings found;
  if (!are_gpus(evidence.machine)) return found;
  for (const LinkSpec& link : evidence.machine.links) {
    if (link.peer_access) continue;
    found.push_back(
        {"", kFault, pair_name(link.source, link.destination), "no peer access", "peer access",
         link.why_no_peer_access.empty() ? "the driver does not say why" : link.why_no_peer_access,
         "nvidia-smi topo -p2p r; a driver and a board that allow it, or plan for copies through the host"});
  }
  return found;
}

Findings iommu_translation(const Evidence& evidence) {
  if (evidence.machine.iommu != "translated" || evidence.machine.links.empty() || !are_gpus(evidence.machine))
    return {};
  const bool harms = some_pair_on_pcie(evidence.machine);
  return {{"", harms ? kWarning : kNotice, "host", "IOMMU translates addresses", "off, or passthrough",
           harms ? "copies between GPUs over PCIe go through the IOMMU: slower, and known to corrupt data"
                 : "all pairs have NVLink, which it does not touch; copies to the host are translated",
           "kernel parameter iommu=pt (or intel_iommu=off, amd_iommu=off), then reboot"}};
}

Findings acs_redirect(const Evidence& evidence) {
  if (evidence.machine.acs.empty() || evidence.machine.links.empty()) return {};
  const bool harms = some_pair_on_pcie(evidence.machine);
  return {{"", harms ? kWarning : kNotice, evidence.machine.acs, "ACS redirects peer requests",
           "no redirection on the path between GPUs",
           "writes between GPUs climb to the root complex instead of turning at the switch",
           "setpci -s BRIDGE ECAP_ACS+0x6.w=0000 as root for each bridge named, or ACS off in the firmware"}};
}

Findings links_down(const Evidence& evidence) {
  Findings found;
  for (const DeviceSpec& device : evidence.machine.devices)
    if (device.num_links_down > 0)
      found.push_back({"", kFault, gpu_name(device.index),
                       fmt::format("{} NVLinks up, {} down", device.num_links, device.num_links_down),
                       fmt::format("{} up", device.num_links + device.num_links_down),
                       "a link that did not train: bandwidth is lost, and old NCCL versions corrupted data over it",
                       fmt::format("nvidia-smi nvlink -s -i {}; reseat or replace the board or switch", device.index)});
  return found;
}

Findings mixed_generations(const Evidence& evidence) {
  std::set<std::string> names;
  for (const DeviceSpec& device : evidence.machine.devices) names.insert(device.name);
  if (names.size() < 2 || !are_gpus(evidence.machine)) return {};
  return {{"", kWarning, "machine", fmt::format("{}", fmt::join(names, ", ")), "GPUs of one model",
           "data parallel steps wait for the slowest of them",
           "`study gpus` with GPUs of one model, or shares by speed"}};
}

Findings wrong_numa_binding(const Evidence& evidence) {
  Findings found;
  const std::vector<int>& nodes = evidence.host.numa_nodes;
  if (nodes.empty()) return found;
  for (const DeviceSpec& device : evidence.machine.devices) {
    if (device.numa_node < 0 || std::find(nodes.begin(), nodes.end(), device.numa_node) != nodes.end()) continue;
    found.push_back(
        {"", kWarning, gpu_name(device.index),
         fmt::format("this process is bound to NUMA node {}", fmt::join(nodes, ",")),
         fmt::format("node {}, where the GPU is", device.numa_node),
         "every copy to or from the host crosses the link between the sockets",
         fmt::format("numactl --cpunodebind={0} --membind={0} for the process of this GPU", device.numa_node)});
  }
  return found;
}

Findings small_shm(const Evidence& evidence) {
  constexpr int64_t kEnough = int64_t{1} << 30;  // minimum for containers in NCCL's troubleshooting guide
  if (evidence.host.shm_bytes < 0 || evidence.host.shm_bytes >= kEnough || !are_gpus(evidence.machine)) return {};
  return {{"", kWarning, "host", fmt::format("/dev/shm has {} MiB", evidence.host.shm_bytes >> 20), "1,024 MiB or more",
           "ranks of one host exchange data there when they cannot reach each other's GPU; data loaders use it too",
           "docker run --shm-size=1g --ulimit memlock=-1, or --ipc=host"}};
}

}  // namespace

std::vector<FindingRow> topology_findings() {
  const auto pairs = [](const Evidence& e) { return are_gpus(e.machine) && !e.machine.links.empty(); };
  const auto gpus = [](const Evidence& e) { return are_gpus(e.machine); };
  return {{"no-peer-access", "peer access of every pair", no_peer_access, pairs},
          {"iommu-translation", "the IOMMU", iommu_translation,
           [](const Evidence& e) { return are_gpus(e.machine) && !e.machine.iommu.empty(); }},
          {"acs-redirect", "access control of the PCI bridges between GPUs", acs_redirect, pairs},
          {"links-down", "NVLinks that are not up", links_down, gpus},
          {"mixed-generations", "GPUs of different models", mixed_generations, gpus},
          {"wrong-numa-binding", "the cores this process is bound to", wrong_numa_binding, gpus},
          {"small-shm", "/dev/shm", small_shm,
           [](const Evidence& e) { return are_gpus(e.machine) && e.host.shm_bytes >= 0; }}};
}

}  // namespace amdahl

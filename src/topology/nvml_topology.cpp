#include "topology/nvml_topology.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace amdahl {
namespace {

// The declarations of nvml.h that are used here; they are stable across drivers.
constexpr int kSuccess = 0;
constexpr unsigned kMaxLinks = 36;
constexpr int kRemoteIsSwitch = 2;
constexpr int kCapsRead = 0, kCapsAtomics = 3;
constexpr int kLevelSingle = 10, kLevelMultiple = 20, kLevelHostBridge = 30, kLevelNode = 40;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};

/// A function of the library, or a function that always fails when the driver lacks it.
template <class... Arguments>
class Call {
 public:
  Call(const Nvml& nvml, const char* name) : function_(reinterpret_cast<int (*)(Arguments...)>(nvml.symbol(name))) {}
  bool operator()(Arguments... arguments) const { return function_ && function_(arguments...) == kSuccess; }

 private:
  int (*function_)(Arguments...);
};

struct Api {
  explicit Api(const Nvml& nvml)
      : name(nvml, "nvmlDeviceGetName"),
        uuid(nvml, "nvmlDeviceGetUUID"),
        pci(nvml, "nvmlDeviceGetPciInfo_v3"),
        memory(nvml, "nvmlDeviceGetMemoryInfo"),
        generation(nvml, "nvmlDeviceGetMaxPcieLinkGeneration"),
        width(nvml, "nvmlDeviceGetMaxPcieLinkWidth"),
        capability(nvml, "nvmlDeviceGetCudaComputeCapability"),
        link_state(nvml, "nvmlDeviceGetNvLinkState"),
        link_version(nvml, "nvmlDeviceGetNvLinkVersion"),
        link_remote(nvml, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
        link_remote_kind(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType"),
        ancestor(nvml, "nvmlDeviceGetTopologyCommonAncestor"),
        peer_status(nvml, "nvmlDeviceGetP2PStatus") {}

  Call<void*, char*, unsigned> name, uuid;
  Call<void*, PciInfo*> pci;
  Call<void*, Memory*> memory;
  Call<void*, unsigned*> generation, width;
  Call<void*, int*, int*> capability;
  Call<void*, unsigned, int*> link_state;
  Call<void*, unsigned, unsigned*> link_version;
  Call<void*, unsigned, PciInfo*> link_remote;
  Call<void*, unsigned, int*> link_remote_kind;
  Call<void*, void*, int*> ancestor;
  Call<void*, void*, int, int*> peer_status;
};

/// The active links of one GPU, by their remote end.
struct Links {
  int up = 0, down = 0, version = 0, to_switch = 0;
  std::map<std::string, int> to_gpu;  // by PCI address
};

// nvmlNvlinkVersion_t: versions 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0 and 6.0 have numbers from 1.
int generation_of(unsigned version) {
  constexpr std::array<int, 9> kGenerations{0, 1, 2, 2, 3, 3, 4, 5, 6};
  return version < kGenerations.size() ? kGenerations[version] : 0;
}

Links read_links(const Api& api, void* device) {
  Links links;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int state = 0;
    if (!api.link_state(device, link, &state)) continue;  // the card has no such link
    if (!state) {
      ++links.down;
      continue;
    }
    ++links.up;
    unsigned version = 0;
    if (api.link_version(device, link, &version)) links.version = std::max(links.version, generation_of(version));
    int kind = 0;
    PciInfo remote{};
    if (api.link_remote_kind(device, link, &kind) && kind == kRemoteIsSwitch) {
      ++links.to_switch;
    } else if (api.link_remote(device, link, &remote)) {
      ++links.to_gpu[short_pci_bus_id(remote.bus_id)];
    }
  }
  return links;
}

DeviceSpec read_device(const Api& api, void* handle, int index) {
  DeviceSpec device;
  device.index = index;
  device.kind = "cuda";
  std::array<char, 128> text{};
  if (api.name(handle, text.data(), text.size() - 1)) device.name = text.data();
  text.fill(0);
  if (api.uuid(handle, text.data(), text.size() - 1)) device.uuid = text.data();
  PciInfo pci{};
  if (api.pci(handle, &pci)) device.pci_bus_id = short_pci_bus_id(pci.bus_id);
  Memory memory{};
  if (api.memory(handle, &memory)) device.memory_bytes = static_cast<int64_t>(memory.total);
  unsigned value = 0;
  if (api.generation(handle, &value)) device.pcie_generation = static_cast<int>(value);
  if (api.width(handle, &value)) device.pcie_lanes = static_cast<int>(value);
  int major = 0, minor = 0;
  if (api.capability(handle, &major, &minor))
    device.compute_capability = std::to_string(major) + "." + std::to_string(minor);
  return device;
}

PathKind path_of_level(int level) {
  if (level <= kLevelSingle) return PathKind::pix;
  if (level <= kLevelMultiple) return PathKind::pxb;
  if (level <= kLevelHostBridge) return PathKind::phb;
  return level <= kLevelNode ? PathKind::node : PathKind::sys;
}

std::string peer_refusal(int status) {
  static constexpr std::array<const char*, 7> kReasons{"",
                                                       "the chipset does not support it",
                                                       "the GPU does not support it",
                                                       "the path between their I/O hubs does not support it",
                                                       "a driver setting disables it",
                                                       "not supported",
                                                       "unknown"};
  return kReasons[std::min<size_t>(static_cast<size_t>(std::max(status, 0)), kReasons.size() - 1)];
}

/// NVLinks between two GPUs: those that end at the other GPU, or those that both have to the switches.
void connect(LinkSpec& link, const Links& from, const Links& to, const std::string& to_bus_id) {
  const auto direct = from.to_gpu.find(to_bus_id);
  if (direct != from.to_gpu.end()) {
    link.num_links = direct->second;
  } else if (from.to_switch > 0 && to.to_switch > 0) {
    link.num_links = std::min(from.to_switch, to.to_switch);
    link.through_switch = true;
  }
  if (link.num_links == 0) return;
  link.path = PathKind::nvlink;
  link.nvlink_version = std::min(from.version, to.version);
  link.raw_gbps = link.num_links * nvlink_gbps(link.nvlink_version);
}

}  // namespace

std::string short_pci_bus_id(const std::string& bus_id) {
  std::string text = bus_id;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t colon = text.find(':');
  return colon != std::string::npos && colon > 4 ? text.substr(colon - 4) : text;
}

double nvlink_gbps(int version) {
  constexpr std::array<double, 6> kRates{0, 20, 25, 25, 25, 50};
  return version < 1 || version >= static_cast<int>(kRates.size()) ? 0 : kRates[static_cast<size_t>(version)];
}

double pcie_gbps(int generation, int lanes) {
  constexpr std::array<double, 7> kGigatransfers{0, 2.5, 5, 8, 16, 32, 64};
  if (generation < 1 || generation >= static_cast<int>(kGigatransfers.size())) return 0;
  const double encoding = generation <= 2 ? 8.0 / 10 : generation <= 5 ? 128.0 / 130 : 242.0 / 256;
  return kGigatransfers[static_cast<size_t>(generation)] * lanes * encoding / 8;
}

NvmlTopology read_nvml_topology(const Nvml& nvml) {
  const Api api(nvml);
  NvmlTopology result;
  std::vector<void*> handles;
  std::vector<Links> links;
  for (unsigned index = 0; void* handle = nvml.device_at(index); ++index) {
    handles.push_back(handle);
    links.push_back(read_links(api, handle));
    DeviceSpec device = read_device(api, handle, static_cast<int>(index));
    device.num_links = links.back().up;
    device.num_links_down = links.back().down;
    result.devices.push_back(device);
  }
  for (size_t from = 0; from < handles.size(); ++from)
    for (size_t to = 0; to < handles.size(); ++to) {
      if (from == to) continue;
      const DeviceSpec &a = result.devices[from], &b = result.devices[to];
      LinkSpec link;
      link.source = a.index, link.destination = b.index;
      int level = 0;
      if (api.ancestor(handles[from], handles[to], &level))
        link.path = path_of_level(level);
      else
        result.knows_paths = false;
      int status = 0;
      if (api.peer_status(handles[from], handles[to], kCapsRead, &status)) {
        link.peer_access = status == 0;
        link.why_no_peer_access = peer_refusal(status);
      }
      if (api.peer_status(handles[from], handles[to], kCapsAtomics, &status)) link.peer_atomics = status == 0;
      link.raw_gbps = std::min(pcie_gbps(a.pcie_generation, a.pcie_lanes), pcie_gbps(b.pcie_generation, b.pcie_lanes));
      connect(link, links[from], links[to], b.pci_bus_id);
      result.links.push_back(link);
    }
  return result;
}

}  // namespace amdahl

// MachineSpec: devices, links, host and library versions of a machine. Plain data.
//
// Example: the path between GPUs 0 and 1.
//   const amdahl::MachineSpec machine = amdahl::run_topo({}).machine;
//   if (const amdahl::LinkSpec* link = machine.link(0, 1))
//     std::printf("%s, %.0f GB/s\n", std::string(to_string(link->path)).c_str(), link->raw_gbps);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// One compute device. `kind` is "cuda" or "cpu-virtual" (CPU threads that emulate a GPU).
struct DeviceSpec {
  int index = 0;
  std::string kind;
  std::string name;
  std::string uuid;          // empty for virtual devices
  int64_t memory_bytes = 0;  // total, 0 when unknown
  int sm_count = 0;          // 0 for virtual devices
  int whole_sm_count = 0;    // SM-limited devices: multiprocessors of the whole GPU; else 0
  std::string compute_capability;
  std::string pci_bus_id;   // "0000:1b:00.0"; empty for virtual devices
  int numa_node = -1;       // of the socket that it is attached to; -1 when unknown
  int pcie_generation = 0;  // maximum of the link to its slot; 0 when unknown
  int pcie_lanes = 0;       // maximum of the link to its slot; 0 when unknown
  int num_links = 0;        // NVLinks that are up
  int num_links_down = 0;   // NVLinks of the card that are down
  double copy_gbps = 0;     // bytes read plus written by a copy within the device, GB/s; 0: not measured
};

/// Kind of path between two devices, fastest first, as `nvidia-smi topo` names it. `host`: between virtual devices,
/// which share the host's memory.
enum class PathKind { self, nvlink, pix, pxb, phb, node, sys, host };
/// "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "HOST".
AMDAHL_API std::string_view to_string(PathKind kind);

/// The path from one device to another. Every ordered pair has its own, because links need not be symmetric.
struct LinkSpec {
  int source = 0, destination = 0;  // DeviceSpec::index
  PathKind path = PathKind::sys;
  int num_links = 0;            // NVLinks between them, directly or through switches
  int nvlink_version = 0;       // generation: 4 on Hopper, 0 without NVLink
  bool through_switch = false;  // NVSwitch
  double raw_gbps = 0;          // lanes x signalling rate, one direction, GB/s; 0 when unknown
  double expected_gbps = 0;     // raw_gbps x protocol efficiency of the best transfer method, GB/s
  bool peer_access = false;     // as the driver reports
  bool peer_atomics = false;
  std::string why_no_peer_access;  // empty with peer access, or when unknown
  double measured_gbps = 0;        // of large copies in one direction, by `amdahl links`, GB/s; 0: not measured
  double latency_us = 0;           // by `amdahl links`, us; 0: not measured
  std::string quarantine;          // why direct transfers of this pair are forbidden; empty: allowed
};

/// One NUMA node of the host.
struct NumaNode {
  int index = 0;
  std::string cores;  // "0-15,32-47"
  int64_t memory_bytes = 0;
};

/// Spread of the medians of fresh processes on this machine, from a run of several processes.
struct ProcessSpread {
  std::string kind;         // of the records: "study-run", "collective", "link", "sensor"
  std::string device_kind;  // "cuda", "cpu-virtual"
  std::string cell;         // axes: "collective=all_reduce devices=4 ..."
  double relative_sd = 0;   // standard deviation of the logarithm of a process's median
  int64_t processes = 0;    // number of processes
  double runs = 0;          // samples per process
};

struct MachineSpec {
  std::string host;
  std::string os;
  std::string cpu_name;
  int num_cores = 0;     // cores this process may use
  double cpu_limit = 0;  // processors that its control group allows, which may be less than a core; 0: no limit
  int num_numa_nodes = 1;
  int64_t memory_bytes = 0;
  std::vector<DeviceSpec> devices;  // real accelerators; empty without a GPU
  std::vector<LinkSpec> links;      // one per ordered pair of different devices
  std::vector<NumaNode> numa_nodes;
  std::string iommu;  // "off", "translated", "passthrough"; empty when the host does not show it
  std::string acs;    // PCI bridges between devices that redirect peer traffic, "0000:17:01.0 ..."; or empty
  std::vector<ProcessSpread> process_spreads;   // by `amdahl calibrate`
  std::map<std::string, std::string> versions;  // "driver", "cuda", "nccl", "cublas", "onednn", ... as found

  /// The path from one device index to another; null when unknown. Valid as long as `links` is unchanged.
  const LinkSpec* link(int source, int destination) const {
    for (const LinkSpec& candidate : links)
      if (candidate.source == source && candidate.destination == destination) return &candidate;
    return nullptr;
  }
};

/// An optional component of the program, as `amdahl info` lists it.
struct BackendStatus {
  std::string name;
  Availability availability;
  std::string version;
};

}  // namespace amdahl

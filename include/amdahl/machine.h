// MachineSpec: what this machine is, as far as the commands need it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// One compute device. `kind` is "cuda" or "cpu-virtual" (CPU threads standing in for a GPU).
struct DeviceSpec {
  int index = 0;
  std::string kind;
  std::string name;
  std::string uuid;          // empty for virtual devices
  int64_t memory_bytes = 0;  // total, 0 when unknown
  int sm_count = 0;          // 0 for virtual devices
  int whole_sm_count = 0;    // of the GPU whose multiprocessors an SM-limited device has a part of; else 0
  std::string compute_capability;
  std::string pci_bus_id;   // "0000:1b:00.0"; empty for virtual devices
  int numa_node = -1;       // of the socket it hangs on, -1 when unknown
  int pcie_generation = 0;  // of its slot's link at its best, 0 when unknown
  int pcie_lanes = 0;       // likewise
  int num_links = 0;        // NVLinks that are up
  int num_links_down = 0;   // NVLinks that the card has and that are not up
  double copy_gbps = 0;     // memory read and written by a copy on the device itself, GB/s; 0: not measured
};

/// How the way between two devices looks, best first; the letters of `nvidia-smi topo`. `host`: virtual devices, which
/// share the host's memory.
enum class PathKind { self, nvlink, pix, pxb, phb, node, sys, host };
/// "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "HOST".
AMDAHL_API std::string_view to_string(PathKind kind);

/// The way from one device to another. Every ordered pair has its own: links are not taken to be symmetric.
struct LinkSpec {
  int source = 0, destination = 0;  // DeviceSpec::index
  PathKind path = PathKind::sys;
  int num_links = 0;            // NVLinks between them, through switches or not
  int nvlink_version = 0;       // generation: 4 on Hopper, 0 without NVLink
  bool through_switch = false;  // NVSwitch
  double raw_gbps = 0;          // lanes x signalling rate, one direction, GB/s; 0 when unknown
  double expected_gbps = 0;     // raw_gbps x protocol efficiency of the transfer that is expected to be best
  bool peer_access = false;     // as the driver says
  bool peer_atomics = false;
  std::string why_no_peer_access;  // empty when there is, or when unknown
  double measured_gbps = 0;        // by `amdahl links`, one direction, large copies; 0: not measured
  double latency_us = 0;           // by `amdahl links`; 0: not measured
  std::string quarantine;          // why commands must not move data this way directly; empty: they may
};

/// One NUMA node of the host.
struct NumaNode {
  int index = 0;
  std::string cores;  // "0-15,32-47"
  int64_t memory_bytes = 0;
};

/// How far the medians of fresh processes lie apart on this machine, as a run of several processes showed.
struct ProcessSpread {
  std::string kind;         // of the records: "study-run", "collective", "link", "sensor"
  std::string device_kind;  // "cuda", "cpu-virtual"
  std::string cell;         // its axes: "collective=all_reduce devices=4 ..."
  double relative_sd = 0;   // of the logarithm of a process's median
  int64_t processes = 0;    // it was taken from
  double runs = 0;          // samples of each
};

struct MachineSpec {
  std::string host;
  std::string os;
  std::string cpu_name;
  int num_cores = 0;  // cores this process may use
  int num_numa_nodes = 1;
  int64_t memory_bytes = 0;
  std::vector<DeviceSpec> devices;  // real accelerators; empty without a GPU
  std::vector<LinkSpec> links;      // ordered pairs of devices, without a device and itself
  std::vector<NumaNode> numa_nodes;
  std::string iommu;  // "off", "translated", "passthrough"; empty when the host does not show it
  std::string acs;    // PCI bridges on the way between devices that redirect peer traffic, "0000:17:01.0 ..."; or empty
  std::vector<ProcessSpread> process_spreads;   // by `amdahl calibrate`
  std::map<std::string, std::string> versions;  // "driver", "cuda", "nccl", "cublas", "onednn", ... as found

  /// The way between two devices by their indices, null when unknown.
  const LinkSpec* link(int source, int destination) const {
    for (const LinkSpec& candidate : links)
      if (candidate.source == source && candidate.destination == destination) return &candidate;
    return nullptr;
  }
};

/// One optional part of the program, as `amdahl info` lists it.
struct BackendStatus {
  std::string name;
  Availability availability;
  std::string version;
};

}  // namespace amdahl

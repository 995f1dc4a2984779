// GPUs and the links between them, by NVML.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "device/nvml.h"

namespace amdahl {

struct NvmlTopology {
  std::vector<DeviceSpec> devices;  // in the driver's order, by PCI address
  std::vector<LinkSpec> links;      // every ordered pair; values that NVML does not report keep their defaults
  bool knows_paths = true;          // NVML reported the common ancestor of every pair
};

/// Reads every GPU and pair. Indices are the driver's. Does not throw: readings that the driver refuses are omitted.
NvmlTopology read_nvml_topology(const Nvml& nvml);

/// The short form of a PCI address: "0000:1b:00.0" for "00000000:1B:00.0".
std::string short_pci_bus_id(const std::string& bus_id);

/// Nominal rate of one NVLink in one direction, GB/s, by its generation: 1 to 5 give 20, 25, 25, 25, 50 (NVIDIA's data
/// sheets of P100, V100, A100, H100 and B200: total rate / links / 2). 0 for an unknown version.
double nvlink_gbps(int version);

/// Rate of a PCIe link in one direction, GB/s: transfers/s x lanes x encoding / 8 (8b/10b up to generation 2, 128b/130b
/// up to 5, and 242/256 flits for 6). 0 for an unknown generation.
double pcie_gbps(int generation, int lanes);

}  // namespace amdahl

// What the driver's management library knows of the GPUs and the links between them.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "device/nvml.h"

namespace amdahl {

struct NvmlTopology {
  std::vector<DeviceSpec> devices;  // in the driver's order, by PCI address
  std::vector<LinkSpec> links;      // every ordered pair; what the library does not say is left at its default
  bool knows_paths = true;          // it said where every pair meets
};

/// Reads every GPU and pair. Indices are the driver's. Never throws: a reading that the driver refuses is left out.
NvmlTopology read_nvml_topology(const Nvml& nvml);

/// "00000000:1B:00.0" and "0000:1b:00.0" are one address: the second form.
std::string short_pci_bus_id(const std::string& bus_id);

/// Nominal rate of one NVLink in one direction, GB/s, by its generation: 1 to 5 give 20, 25, 25, 25, 50 (NVIDIA's data
/// sheets of P100, V100, A100, H100 and B200: total rate / links / 2). 0 for an unknown version.
double nvlink_gbps(int version);

/// Rate of a PCIe link in one direction, GB/s: transfers/s x lanes x encoding / 8 (8b/10b up to generation 2, 128b/130b
/// up to 5, and 242/256 flits for 6). 0 for an unknown generation.
double pcie_gbps(int generation, int lanes);

}  // namespace amdahl

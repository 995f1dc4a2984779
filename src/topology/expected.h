// What the links of a machine should carry, computed from what they are.
#pragma once

#include "amdahl/machine.h"

namespace amdahl {

/// Part of an NVLink's signalling rate that large copies reach. Version 4: 0.875, copy engines between H200s, 18 links
/// (394 of 450 GB/s; results/h200). Others: 16 data flits to one header flit of a packet of 256 bytes, 16/17.
double nvlink_efficiency(int version);

/// Part of a PCIe link's rate that large copies reach: 256 bytes of payload to 24 of header and framing (PCI Express
/// Base Specification, transaction layer packets of 64-bit addresses), and 2 % of the link for acknowledgements.
double pcie_efficiency();

/// GB/s in one direction between a device and its host, 0 when its slot is unknown.
double expected_host_gbps(const DeviceSpec& device);

/// Fills in LinkSpec::expected_gbps where the links are known: NVLink by number and version, else the slower of the two
/// slots when the pair has peer access over PCIe. Pairs whose way leads through the host keep 0.
void expect_rates(MachineSpec& machine);

}  // namespace amdahl

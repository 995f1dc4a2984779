// Expected rates of a machine's links, computed from their type and width.
#pragma once

#include "amdahl/machine.h"

namespace amdahl {

/// Share of an NVLink's signalling rate that large copies reach. Version 4: 0.875, measured with copy engines between
/// H200s over 18 links (394 of 450 GB/s; results/h200). Other versions: 16/17, 16 data flits and one header flit per
/// packet of 256 bytes.
double nvlink_efficiency(int version);

/// Share of a PCIe link's rate that large copies reach: 256 bytes of payload per 24 bytes of header and framing (PCI
/// Express Base Specification, transaction layer packets with 64-bit addresses), and 2 % of the link for
/// acknowledgements.
double pcie_efficiency();

/// Expected GB/s in one direction between a device and its host; 0 when its slot is unknown.
double expected_host_gbps(const DeviceSpec& device);

/// Sets LinkSpec::expected_gbps: for NVLink by number and version, else for peer access over PCIe the slower of the two
/// slots. Pairs that transfer through the host keep 0.
void expect_rates(MachineSpec& machine);

}  // namespace amdahl

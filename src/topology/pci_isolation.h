// Obstacles to peer traffic over PCIe: the IOMMU and access control (ACS) of bridges.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

/// "off" without an IOMMU, "passthrough" when every group is an identity mapping, else "translated"; empty when it
/// cannot be read from `sysfs` ("/sys").
std::string read_iommu(const std::string& sysfs);

/// The `bridges` (PCI addresses) that redirect peer requests or completions to the host (ACS P2P request or completion
/// redirect, PCI Express Base Specification 7.7.11). Needs root: bridges whose configuration space can only be read in
/// part are omitted.
std::vector<std::string> redirecting_bridges(const std::string& sysfs, const std::vector<std::string>& bridges);

}  // namespace amdahl

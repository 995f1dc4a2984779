// What stands between devices that write to each other over PCIe: the IOMMU and access control of bridges.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

/// "off" without an IOMMU, "passthrough" when every group is an identity mapping, else "translated"; empty when `sysfs`
/// ("/sys") does not show it.
std::string read_iommu(const std::string& sysfs);

/// Those of `bridges` (PCI addresses) whose access control sends peer requests or completions up to the host (ACS P2P
/// request or completion redirect, PCI Express Base Specification 7.7.11). Reading it needs root: bridges whose
/// configuration space is cut short are left out.
std::vector<std::string> redirecting_bridges(const std::string& sysfs, const std::vector<std::string>& bridges);

}  // namespace amdahl

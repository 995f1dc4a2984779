// A MachineSpec for people: the matrix of paths, and drawings.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

/// Matrix in the letters of `nvidia-smi topo -m`, what is behind it (links, versions, rates, peer access), and a legend
/// of the letters that occur.
std::string topology_matrix(const MachineSpec& machine);
/// Graphviz: devices, NUMA nodes and switches, an edge for each unordered pair or its links to a switch.
std::string topology_dot(const MachineSpec& machine);
/// The same as a picture of its own.
std::string topology_svg(const MachineSpec& machine);

/// "GPU0", or "CPU0" for a virtual device.
std::string device_label(const DeviceSpec& device);
/// "NV18", "PIX", ...
std::string path_label(const LinkSpec& link);

}  // namespace amdahl

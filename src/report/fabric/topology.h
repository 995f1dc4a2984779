// A MachineSpec as text and drawings: the matrix of paths, and the graph.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

/// Matrix in the notation of `nvidia-smi topo -m`, details (links, versions, rates, peer access), and a legend of the
/// symbols used.
std::string topology_matrix(const MachineSpec& machine);
/// Graphviz source: devices, NUMA nodes and switches, one edge per unordered pair or per connection to a switch.
std::string topology_dot(const MachineSpec& machine);
/// The same graph as SVG.
std::string topology_svg(const MachineSpec& machine);

/// "GPU0", or "CPU0" for a virtual device.
std::string device_label(const DeviceSpec& device);
/// "NV18", "PIX", ...
std::string path_label(const LinkSpec& link);

}  // namespace amdahl

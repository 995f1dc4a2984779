// The bandwidth between all pairs of devices as a drawing.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

/// Heat map (SVG) of LinkSpec::measured_gbps of every ordered pair; pairs below the expected bandwidth are outlined.
/// Empty when nothing was measured.
std::string links_heat_map(const MachineSpec& machine);

}  // namespace amdahl

// The pairs of devices as a picture.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

/// LinkSpec::measured_gbps of every ordered pair as SVG, pairs below what is expected outlined; empty when none was
/// measured.
std::string links_heat_map(const MachineSpec& machine);

}  // namespace amdahl

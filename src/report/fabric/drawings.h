// Drawings of links and collectives.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// SVG of bus bandwidth (GB/s) over size (bytes), log-log: one line per collective, transport, placement and every
/// other field in which the records differ; the upper bound of the bus bandwidth is dashed if records have a series
/// "peak". Failed records with a bandwidth are crosses; those without are counted below the drawing. Empty when no
/// record has a bandwidth.
std::string collectives_curves(const std::vector<Record>& records);

/// Heat map (SVG) of LinkSpec::measured_gbps of every ordered pair; pairs below the expected bandwidth are outlined.
/// Empty when nothing was measured.
std::string links_heat_map(const MachineSpec& machine);

}  // namespace amdahl

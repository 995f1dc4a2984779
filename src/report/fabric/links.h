// Link measurements for people: a matrix a test, and the pairs as a heat map.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Medians in GB/s or us, sources down, destinations across; then integrity, what is expected of the links, and the
/// lines of `slow`.
std::string links_text(const std::vector<Record>& records, const MachineSpec& machine,
                       const std::vector<std::string>& slow);

/// LinkSpec::measured_gbps of every ordered pair as SVG, pairs below what is expected outlined; empty when none was
/// measured.
std::string links_heat_map(const MachineSpec& machine);

}  // namespace amdahl

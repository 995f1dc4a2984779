// What link Records say of the machine.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Sets LinkSpec::measured_gbps (the better of the copy engines of both ends), latency_us, quarantine (with the first
/// fault) and DeviceSpec::copy_gbps from Records of kinds "link" and "integrity".
void note_links(MachineSpec& machine, const std::vector<Record>& records);

/// One line for each measured pair below kLeastPart of what is expected of it, or below `min_gbps`.
std::vector<std::string> slow_links(const MachineSpec& machine, double min_gbps);
inline constexpr double kLeastPart = 0.9;

}  // namespace amdahl

// Transfers results between link Records and the MachineSpec.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Sets LinkSpec::measured_gbps (the better of the copy engines of both ends), latency_us, quarantine (with the first
/// fault) and DeviceSpec::copy_gbps from Records of kinds "link" and "integrity".
void note_links(MachineSpec& machine, const std::vector<Record>& records);

/// Clears the fields that note_links sets.
void forget_measurements(MachineSpec& machine);

/// The machine as described by Records: its devices, and one link per ordered pair of devices with only its ends known.
MachineSpec machine_of_records(const std::vector<Record>& records);

/// One line for each measured pair below kLeastPart of its expected bandwidth, or below `min_gbps`.
std::vector<std::string> slow_links(const MachineSpec& machine, double min_gbps);
inline constexpr double kLeastPart = 0.9;

}  // namespace amdahl

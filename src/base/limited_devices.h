// Devices that were limited on purpose to a part of their speed, and the names and the origin that this gives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Writes into the facts that `devices[i]` was limited to `fractions[i]` of its speed (1 or absent: not limited), and
/// names it so.
void limit_devices(Provenance& provenance, const std::vector<DeviceSpec>& devices,
                   const std::vector<double>& fractions);

/// Limited devices by what they were: "NVIDIA H200, 32 of 132 SMs, emulated", or of a virtual device "CPU virtual
/// device 1, 50 % of its speed, emulated". The others, and those that have such a name already, keep theirs.
void name_limited_devices(Provenance& provenance);

/// emulated where a device was limited: what was measured stands in for devices of that size. Otherwise measured.
Origin origin_of_devices(const Provenance& provenance);

/// Names of the devices that the facts number ("device.0" or "device.0.name"), in their order; virtual devices without
/// their number.
std::vector<std::string> numbered_devices(const Provenance& provenance);
/// At most `most` of them.
std::vector<std::string> first_devices(const Provenance& provenance, int64_t most);

/// "2x NVIDIA H200", "1x H100 + 1x A100"; empty without names. `times` is between number and name.
std::string counted_devices(const std::vector<std::string>& names, std::string_view times = "x ");

}  // namespace amdahl

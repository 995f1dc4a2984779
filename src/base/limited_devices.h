// Devices that are deliberately limited to a fraction of their speed: their names and origin.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Records in the facts that `devices[i]` is limited to `fractions[i]` of its speed (1 or absent: not limited), and
/// renames it.
void limit_devices(Provenance& provenance, const std::vector<DeviceSpec>& devices,
                   const std::vector<double>& fractions);

/// Names limited devices: "NVIDIA H200, 32 of 132 SMs, emulated", or a virtual device "CPU virtual device 1, 50 % of
/// its speed, emulated". Other devices, and those with such a name already, keep their names.
void name_limited_devices(Provenance& provenance);

/// emulated when a device is limited, because it represents a smaller device; otherwise measured.
Origin origin_of_devices(const Provenance& provenance);

/// Names of the devices in the facts ("device.0" or "device.0.name"), in order; virtual devices without their number.
std::vector<std::string> numbered_devices(const Provenance& provenance);
/// The first `most` of numbered_devices().
std::vector<std::string> first_devices(const Provenance& provenance, int64_t most);

/// "2x NVIDIA H200", "1x H100 + 1x A100"; empty without names. `times` separates number and name.
std::string counted_devices(const std::vector<std::string>& names, std::string_view times = "x ");

}  // namespace amdahl

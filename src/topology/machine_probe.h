// The complete MachineSpec: host, devices, and the path between every pair. Measures nothing.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

/// `sysfs`: mount point of sysfs ("/sys"). Devices are those of the CUDA runtime, in its order; without the runtime,
/// those of NVML; when `virtual_devices` is above 0, that many CPU virtual devices instead.
MachineSpec probe_machine(const std::string& sysfs, int virtual_devices);

}  // namespace amdahl

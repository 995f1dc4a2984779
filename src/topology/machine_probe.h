// The whole MachineSpec: host, devices, and the way between every pair. Measures nothing.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

/// `sysfs` is where the kernel shows its devices ("/sys"). Devices are the CUDA runtime's, in its order; without the
/// runtime, the management library's; `virtual_devices` of CPU threads when that is above 0.
MachineSpec probe_machine(const std::string& sysfs, int virtual_devices);

}  // namespace amdahl

// The complete MachineSpec: host, devices, and the path between every pair. Measures nothing.
#pragma once

#include <string>

#include "amdahl/fabric.h"
#include "amdahl/machine.h"
#include "device/nvml.h"

namespace amdahl {

/// `sysfs`: mount point of sysfs ("/sys"). Devices are those of the CUDA runtime, in its order; without the runtime,
/// those of NVML; when `virtual_devices` is above 0, that many CPU virtual devices instead.
MachineSpec probe_machine(const std::string& sysfs, int virtual_devices);

/// Readings of a GPU; values that the driver does not report keep their defaults.
DeviceState read_device_state(const Nvml& nvml, const DeviceSpec& device);

/// `shm`: mount point of shared memory. The machine's NUMA nodes assign cores to nodes.
HostState read_host_state(const MachineSpec& machine, const std::string& shm);

}  // namespace amdahl

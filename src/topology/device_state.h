// Current state of the cards and the host.
#pragma once

#include <string>

#include "amdahl/fabric.h"
#include "device/nvml.h"

namespace amdahl {

/// Readings of a GPU; values that the driver does not report keep their defaults.
DeviceState read_device_state(const Nvml& nvml, const DeviceSpec& device);

/// `shm`: mount point of shared memory. The machine's NUMA nodes assign cores to nodes.
HostState read_host_state(const MachineSpec& machine, const std::string& shm);

}  // namespace amdahl

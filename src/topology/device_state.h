// How the cards and the host are right now.
#pragma once

#include <string>

#include "amdahl/fabric.h"
#include "device/nvml.h"

namespace amdahl {

/// Readings of a GPU; what the driver does not tell is left out.
DeviceState read_device_state(const Nvml& nvml, const DeviceSpec& device);

/// `shm`: where shared memory is mounted. The machine's NUMA nodes say which cores are whose.
HostState read_host_state(const MachineSpec& machine, const std::string& shm);

}  // namespace amdahl

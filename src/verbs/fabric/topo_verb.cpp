// The topology between the devices of this machine.
#include "amdahl/machine.h"
#include "comm/world.h"
#include "topology/machine_probe.h"

namespace amdahl {

TopoOutcome run_topo(const TopoConfig& config) {
  constexpr int kMostVirtualDevices = 1024;
  if (config.virtual_devices < 0 || config.virtual_devices > kMostVirtualDevices)
    throw Error(Cause::usage, "`virtual_devices` is " + std::to_string(config.virtual_devices),
                "1 to " + std::to_string(kMostVirtualDevices) + " CPU virtual devices");
  TopoOutcome outcome;
  outcome.machine = probe_machine(config.sysfs, config.virtual_devices);
  if (outcome.machine.devices.empty()) outcome.machine = probe_machine(config.sysfs, 2);
  if (const std::string nccl = nccl_version(); !nccl.empty()) outcome.machine.versions["nccl"] = nccl;
  return outcome;
}

}  // namespace amdahl

#include "topology/machine_probe.h"

#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

namespace amdahl {
namespace {

constexpr int kSuccess = 0;
constexpr int kThresholdSlowdown = 1;  // nvmlTemperatureThresholds_t

template <class... Arguments>
bool call(const Nvml& nvml, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(nvml.symbol(name));
  return function && function(arguments...) == kSuccess;
}

/// Whether a list such as "0-3,8" contains one of the cores of `set`.
bool overlaps(const std::string& cores, const cpu_set_t& set) {
  const char* at = cores.c_str();
  while (*at) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (end == at) return false;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long core = first; core <= last && core < CPU_SETSIZE; ++core)
      if (core >= 0 && CPU_ISSET(static_cast<size_t>(core), &set)) return true;
    at = *end == ',' ? end + 1 : end;
  }
  return false;
}

}  // namespace

DeviceState read_device_state(const Nvml& nvml, const DeviceSpec& device) {
  DeviceState state;
  state.index = device.index;
  void* handle = nvml.find_device(device.pci_bus_id);
  if (!handle) handle = nvml.device_at(static_cast<unsigned>(device.index));
  if (!handle) return state;
  const DeviceHealth health = nvml.read_health(handle);
  state.temperature_c = health.temperature_c, state.power_w = health.power_w;
  state.sm_clock_mhz = health.sm_clock_mhz, state.utilisation_percent = health.utilisation_percent;
  state.throttle_reasons = health.throttle_reasons;
  state.num_processes = nvml.num_processes(handle);
  state.used_memory_bytes = nvml.used_memory_bytes(handle);
  unsigned value = 0;
  if (call(nvml, "nvmlDeviceGetTemperatureThreshold", handle, kThresholdSlowdown, &value)) state.slowdown_c = value;
  if (call(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle, &value)) state.power_limit_w = value / 1000.0;
  if (call(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", handle, &value))
    state.pcie_generation = static_cast<int>(value);
  if (call(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle, &value)) state.pcie_lanes = static_cast<int>(value);
  return state;
}

HostState read_host_state(const MachineSpec& machine, const std::string& shm) {
  HostState state;
  struct statvfs file_system {};
  if (statvfs(shm.c_str(), &file_system) == 0) {
    state.shm_bytes = static_cast<int64_t>(file_system.f_blocks * file_system.f_frsize);
    state.shm_free_bytes = static_cast<int64_t>(file_system.f_bavail * file_system.f_frsize);
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool bound = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
                     CPU_COUNT(&allowed) < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  for (const NumaNode& node : machine.numa_nodes)
    if (bound && overlaps(node.cores, allowed)) state.numa_nodes.push_back(node.index);
  return state;
}

}  // namespace amdahl

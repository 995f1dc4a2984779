#include "topology/host_probe.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/control_group.h"

namespace amdahl {
namespace {

// PRETTY_NAME of os-release, or the kernel's name.
std::string os_name(const utsname& kernel) {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    const std::string key = "PRETTY_NAME=";
    if (line.rfind(key, 0) != 0) continue;
    std::string name = line.substr(key.size());
    std::erase(name, '"');
    return name;
  }
  return std::string(kernel.sysname) + " " + kernel.release;
}

int usable_cores(double limit) {
  cpu_set_t set;
  int cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  return limit > 0 && limit < cores ? static_cast<int>(std::ceil(limit)) : cores;
}

}  // namespace

MachineSpec probe_host() {
  utsname kernel{};
  uname(&kernel);
  const CpuTopology topology = probe_cpu_topology();
  MachineSpec machine;
  machine.host = kernel.nodename;
  machine.os = os_name(kernel);
  machine.cpu_name = topology.cpu_name.empty() ? std::string(kernel.machine) : topology.cpu_name;
  machine.cpu_limit = control_group_cpu().limit;
  machine.num_cores = usable_cores(machine.cpu_limit);
  machine.num_numa_nodes = topology.num_numa_nodes;
  machine.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  machine.versions["kernel"] = kernel.release;
  return machine;
}

}  // namespace amdahl

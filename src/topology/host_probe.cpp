#include "topology/host_probe.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
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
  machine.num_cores = usable_cores();
  machine.num_numa_nodes = topology.num_numa_nodes;
  machine.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  machine.versions["kernel"] = kernel.release;
  return machine;
}

}  // namespace amdahl

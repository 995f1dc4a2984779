// MachineSpec: what this machine is, as far as the commands need it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// One compute device. `kind` is "cuda" or "cpu-virtual" (CPU threads standing in for a GPU).
struct DeviceSpec {
  int index = 0;
  std::string kind;
  std::string name;
  std::string uuid;          // empty for virtual devices
  int64_t memory_bytes = 0;  // total, 0 when unknown
  int sm_count = 0;          // 0 for virtual devices
  std::string compute_capability;
};

struct MachineSpec {
  std::string host;
  std::string os;
  std::string cpu_name;
  int num_cores = 0;  // cores this process may use
  int num_numa_nodes = 1;
  int64_t memory_bytes = 0;
  std::vector<DeviceSpec> devices;              // real accelerators; empty without a GPU
  std::map<std::string, std::string> versions;  // "driver", "cuda", "nccl", "cublas", "onednn", ... as found
};

/// One optional part of the program, as `amdahl info` lists it.
struct BackendStatus {
  std::string name;
  Availability availability;
  std::string version;
};

}  // namespace amdahl

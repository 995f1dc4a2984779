// EngineConfig: which devices compute and how, for every verb that runs on them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/plan.h"

namespace amdahl {

/// Which devices compute and how.
struct EngineConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  LaunchMode launch = LaunchMode::eager;
  MathMode math = MathMode::fp32;
  bool deterministic = false;
  std::string processes = "gloo";  // how CPU ranks in processes of their own exchange data: gloo, mpi
  uint64_t seed = 42;
  double timeout_seconds = 60;                     // deadline of every collective and device wait
  std::map<std::string, std::string> environment;  // the process environment: launcher and NCCL_*/CUDA_* variables
  std::string command_line;                        // recorded
  MachineSpec machine;  // as `amdahl links` left it: quarantined pairs do not touch each other's memory; empty: none
  /// Called when a peer process failed while this process cannot return by itself (stuck in a collective).
  void (*on_fatal)(const Error&) = nullptr;
};

}  // namespace amdahl

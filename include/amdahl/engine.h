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

/// A measurement spread over fresh processes of the program, one after another: what one process shows (its memory
/// layout, the algorithms it chose, the moment it was started) says nothing about the next one.
struct FreshProcesses {
  int count = 1;                       // 1: this process measures
  std::string program;                 // path of amdahl
  std::vector<std::string> arguments;  // its arguments, without its name; behind them comes a text of the slice

  /// What one of the processes does: the text is INDEX:FIRST:END:FOLDER.
  struct Slice {
    int index = -1;          // its number; -1: this is the process that starts them
    int first = 0, end = 0;  // runs of every cell, where a measurement counts runs
    std::string run_dir;     // that all of them append to
  };
  Slice slice{};

  bool is_child() const { return slice.index >= 0; }
  bool is_parent() const { return count > 1 && !is_child(); }
};

/// Which devices compute and how.
struct EngineConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  LaunchMode launch = LaunchMode::eager;
  MathMode math = MathMode::fp32;
  bool deterministic = false;
  std::string processes = "gloo";  // how CPU ranks in processes of their own exchange data: gloo, mpi
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every collective and device wait
  /// Training: once warmed up, five times the longest step takes the place of `timeout_seconds`; at least 5 s.
  bool auto_timeout = false;
  std::map<std::string, std::string> environment;  // the process environment: launcher and NCCL_*/CUDA_* variables
  std::string command_line;                        // recorded
  MachineSpec machine;  // as `amdahl links` left it: quarantined pairs do not touch each other's memory; empty: none
  /// Called when a peer process failed while this process cannot return by itself (stuck in a collective).
  void (*on_fatal)(const Error&) = nullptr;
};

}  // namespace amdahl

// EngineConfig: which devices compute and how, for every verb that runs on them. Plain data.
//
// Example: two virtual devices on the CPU, reproducible.
//   amdahl::EngineConfig engine;
//   engine.backend = "cpu";
//   engine.deterministic = true;
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/plan.h"

namespace amdahl {

/// Spreads a measurement over fresh processes of the program, one after another. Memory layout, chosen algorithms and
/// start time are constant within a process, so the runs of one process do not show how processes differ.
struct FreshProcesses {
  int count = 1;                       // 1: this process measures
  std::string program;                 // path of amdahl
  std::vector<std::string> arguments;  // its arguments without its name; the text of the slice is appended

  /// The work of one process. Its text is INDEX:FIRST:END:FOLDER.
  struct Slice {
    int index = -1;          // number of the process; -1: this process starts them
    int first = 0, end = 0;  // runs [first, end) of every cell; 0 for measurements without runs
    std::string run_dir;     // all processes append to it
  };
  Slice slice{};

  bool is_child() const { return slice.index >= 0; }
  bool is_parent() const { return count > 1 && !is_child(); }
};

/// Error{usage} of the verbs for unknown backends, a GPU that is named twice and a timeout out of range;
/// Error{environment_missing} for a backend or GPU that is not present.
struct EngineConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  LaunchMode launch = LaunchMode::eager;
  MathMode math = MathMode::fp32;
  bool deterministic = false;      // reruns give equal bits; PlanOptions::virtual_shards: on any number of devices
  std::string processes = "gloo";  // transport between CPU ranks in separate processes: gloo, mpi
  /// Collectives of several ranks: auto (those of the backend), symmetric (in memory that all ranks reach, its
  /// algorithm by size), or one of its algorithms for all-reduce: symmetric-ll, symmetric-ll128, symmetric-one-shot,
  /// symmetric-two-shot.
  std::string comm = "auto";
  std::string
      comm_table;  // file of `onesided` with the sizes at which the algorithms of symmetric change; empty: usual
  /// Artificially limited devices: the fraction of its speed that each may use, in order; empty: all of it. A virtual
  /// device waits after its work, a GPU uses that fraction of its multiprocessors.
  std::vector<double> device_speeds;
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every collective and device wait, s
  /// Training: after warm-up the deadline is five times the longest step, at least 5 s, instead of `timeout_seconds`.
  bool auto_timeout = false;
  std::map<std::string, std::string> environment;  // the process environment: launcher and NCCL_*/CUDA_* variables
  std::string command_line;                        // recorded
  MachineSpec machine;  // of a machine file: its quarantined pairs do not access each other's memory; empty: none
  /// Called when a peer process failed and this process cannot return by itself because it hangs in a collective.
  void (*on_fatal)(const Error&) = nullptr;
};

/// Moves what `dir` holds aside, if that is a run or the parts of `run_all`, so that a verb may write a new run there;
/// on rank 0 of a launched job, nothing on the others. Returns the folder aside; empty: nothing was moved.
/// Error{usage} when the folder holds files but no run, or cannot be moved.
AMDAHL_API std::string put_run_aside(const std::string& dir, const std::map<std::string, std::string>& environment);
/// Removes the folder aside when `dir` holds a new run, otherwise moves it back.
AMDAHL_API void settle_run_aside(const std::string& dir, const std::string& aside);

}  // namespace amdahl

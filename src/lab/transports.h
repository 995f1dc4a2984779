// The transports that the arena sets against each other: what each is, and how a process of its own is started on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/amdahl.h"
#include "base/child_process.h"
#include "comm/nccl_settings.h"

namespace amdahl {

struct TransportRow {
  std::string_view name;     // "nccl ring ll"
  std::string_view backend;  // "cuda", "cpu"
  NcclSettings settings{};   // on top of the environment
  int registration = 0;      // of the buffers, as in CollectivesConfig
  bool graph = false;        // calls in a captured graph
  bool processes = false;    // a process a rank instead of a thread
  bool mpirun = false;       // started by mpirun, which makes the processes
  bool chooses = false;      // NCCL is free in how it does it, and is asked
  Availability (*available)() = nullptr;

  /// Whether an environment alone makes a program use it.
  bool is_environment() const { return backend == "cuda" && registration == 0 && !graph; }
};
const std::vector<TransportRow>& transport_table();

/// Rows by name, "all" being every one of the backend ("auto": of both). Error{usage} with the nearest name.
std::vector<const TransportRow*> find_transports(const std::vector<std::string>& names, const std::string& backend);

/// How a transport is run: measured into a run folder, or, without one, each call made once, untimed, with NCCL's log
/// of what it chose on standard output.
struct TransportRun {
  int devices = 2;
  std::string run_dir;
  bool asks() const { return run_dir.empty(); }
};

/// The processes that run the sweep on a transport, the one of rank 0 first.
std::vector<ChildCommand> transport_commands(const ArenaConfig& config, const TransportRow& row,
                                             const TransportRun& run);

}  // namespace amdahl

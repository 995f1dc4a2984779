// The transports that the arena compares: their settings, and the command that starts a process with each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/fabric.h"
#include "base/child_process.h"
#include "comm/nccl_settings.h"

namespace amdahl {

struct TransportRow {
  std::string_view name;      // "nccl ring ll"
  std::string_view backend;   // "cuda", "cpu"
  NcclSettings settings{};    // in addition to the environment
  int registration = 0;       // registration mode of the buffers, as in CollectivesConfig
  bool graph = false;         // calls in a captured graph
  bool processes = false;     // one process per rank instead of one thread
  std::string comm = "auto";  // as in CollectivesConfig
  bool mpirun = false;        // started by mpirun, which creates the processes
  bool chooses = false;       // NCCL chooses the algorithm; a query run logs its choice
  Availability (*available)() = nullptr;

  /// Whether environment variables alone make a program use this transport.
  bool is_environment() const { return backend == "cuda" && registration == 0 && !graph; }
};
const std::vector<TransportRow>& transport_table();

/// Finds rows by name; "all" means every row of the backend ("auto": of both). Error{usage} with the nearest name.
std::vector<const TransportRow*> find_transports(const std::vector<std::string>& names, const std::string& backend);

/// How a transport is run: with a `run_dir`, it is measured; without, every call is made once, untimed, and NCCL's log
/// of its choices goes to standard output.
struct TransportRun {
  int devices = 2;
  std::string run_dir;
  bool asks() const { return run_dir.empty(); }
};

/// The processes that run the sweep on a transport; rank 0 is first.
std::vector<ChildCommand> transport_commands(const ArenaConfig& config, const TransportRow& row,
                                             const TransportRun& run);

}  // namespace amdahl

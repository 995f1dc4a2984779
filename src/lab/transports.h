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
  bool chooses = false;      // NCCL is free in how it does it, and is asked
  Availability (*available)() = nullptr;

  /// Whether an environment alone makes a program use it.
  bool is_environment() const { return backend == "cuda" && registration == 0 && !graph; }
};
const std::vector<TransportRow>& transport_table();

/// Rows by name, "all" being every one of the backend ("auto": of both). Error{usage} with the nearest name.
std::vector<const TransportRow*> find_transports(const std::vector<std::string>& names, const std::string& backend);

/// The processes that run the sweep on a transport with `devices` ranks; only the first one's output counts. With
/// `ask` each call is made once, and NCCL writes what it chose to standard output.
std::vector<ChildCommand> transport_commands(const ArenaConfig& config, const TransportRow& row, int devices, bool ask);

}  // namespace amdahl

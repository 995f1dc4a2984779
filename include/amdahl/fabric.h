// The fabric: what the devices of a machine are to each other. Configurations and outcomes of the verbs topo and
// collectives. Measurements are Records; to_text is what a terminal shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/engine.h"
#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

struct TopoConfig {
  int virtual_devices = 0;     // describe this many CPU virtual devices instead of GPUs; 0: GPUs, or 2 without any
  std::string sysfs = "/sys";  // where the kernel shows its devices; a copy of another machine's works too
};

struct TopoOutcome {
  MachineSpec machine;
};
/// The matrix in the letters of nvidia-smi, with a legend of what occurs.
AMDAHL_API std::string to_text(const TopoOutcome& outcome);
/// docs/schema/machine.schema.json.
AMDAHL_API std::string to_json(const TopoOutcome& outcome);
/// For Graphviz.
AMDAHL_API std::string to_dot(const TopoOutcome& outcome);
AMDAHL_API std::string to_svg(const TopoOutcome& outcome);

/// A test of `amdahl links`.
struct LinkTestInfo {
  std::string name, group, summary;
};

struct LinksConfig {
  std::string backend = "auto";               // auto, cpu, cuda
  std::vector<int> gpus;                      // CUDA device indices; empty: all, in order
  int devices = 0;                            // how many of them; 0: all GPUs, or 2 virtual devices
  std::vector<std::string> tests{"default"};  // names of tests or groups, "default", "all"
  int64_t buffer_bytes = 0;                   // of a flow; 0: 512 MiB on GPUs, 16 MiB on CPU
  int copies = 0;                             // of a sample; 0: 16 on GPUs, 4 on CPU
  int samples = 3;
  bool check = true;        // verify what every copy brought
  bool traffic = true;      // integrity also while other copies run
  bool peer_access = true;  // false: as on a machine without, through host memory
  int injected_faults = 0;  // integrity: corruptions to make, which must be found
  double min_gbps = 0;      // pairs below it are slow, whatever is expected of them; 0: none
  FreshProcesses repeat;    // each measures all of it
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every wait
  std::string output_dir;       // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::string command_line;                  // recorded
  void (*on_fatal)(const Error&) = nullptr;  // as in EngineConfig
};

struct LinksOutcome {
  MachineSpec machine;            // with what was measured of its links, and quarantined pairs
  std::vector<Record> records;    // kinds "link", "integrity", "integrity-proof"
  std::vector<std::string> slow;  // a line for each pair below 90 % of what its links should carry, or below min_gbps
  std::string run_dir;
  bool failed = false;  // corruption, a slow pair, or a cell that did not fit
};
/// One matrix per test.
AMDAHL_API std::string to_text(const LinksOutcome& outcome);
/// The machine and the records.
AMDAHL_API std::string to_json(const LinksOutcome& outcome);
/// The pairs' copy engine bandwidth as a heat map; empty when it was not measured.
AMDAHL_API std::string to_svg(const LinksOutcome& outcome);

struct CollectivesConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // how many of them; 0: all GPUs, 2 virtual devices, or all ranks of a launched job
  // Of these three "all" means every one; each combination is a sweep of its own.
  std::string processes = "gloo";                      // as in EngineConfig
  std::vector<std::string> collectives{"all_reduce"};  // names of the table, or nccl-tests' program names
  std::vector<std::string> dtypes{"f32"};              // f32, f64, f16, bf16, i32, i64, u8, or nccl-tests' names
  std::vector<std::string> ops{"sum"};                 // sum, prod, min, max, avg; of the collectives that reduce
  int root = 0;
  int64_t min_bytes = 8, max_bytes = 32 << 20;  // of the larger buffer of a rank
  int64_t step_bytes = 0;                       // fixed increment; 0: step_factor
  int step_factor = 2;
  int iterations = 20, warmup = 5;
  bool check = true;      // verify every received element, once per size and placement
  int graph = 0;          // calls a captured graph, replayed `iterations` times; 0: eager
  int registration = 0;   // of the buffers: 0 plain, 1 registered, 2 symmetric windows
  FreshProcesses repeat;  // each measures all of it
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every collective and wait
  std::string output_dir;       // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> nccl_settings;  // of `nccl_settings()`, part of `environment`
  std::string command_line;                          // recorded
  MachineSpec machine;                               // as in EngineConfig
  void (*on_fatal)(const Error&) = nullptr;          // as in EngineConfig
};

struct CollectivesOutcome {
  std::vector<Record> records;  // one a collective, size and placement
  std::string run_dir;
  bool failed = false;  // wrong elements, or a rate that no link can have
  std::string waived;   // why nothing could be measured: one rank
  bool is_root = true;
};
/// A table.
AMDAHL_API std::string to_text(const CollectivesOutcome& outcome);
/// The same rows as nccl-tests prints them.
AMDAHL_API std::string to_nccl_tests(const CollectivesOutcome& outcome);
/// docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const CollectivesOutcome& outcome);
/// Bus bandwidth over size; empty when no size has one.
AMDAHL_API std::string to_svg(const CollectivesOutcome& outcome);

/// Readings of a card at one time. What the driver does not tell stays negative or 0.
struct DeviceState {
  int index = 0;
  double temperature_c = -1, slowdown_c = -1;  // now, and where the card begins to slow down
  double power_w = -1, power_limit_w = -1;
  double sm_clock_mhz = -1, utilisation_percent = -1;
  int num_processes = -1;  // that compute on it
  int64_t used_memory_bytes = -1;
  int pcie_generation = 0, pcie_lanes = 0;  // of its slot's link now; idle cards lower the generation
  uint64_t throttle_reasons = 0;            // nvmlClocksEventReasons
};

/// What the host lets this process use.
struct HostState {
  int64_t shm_bytes = -1, shm_free_bytes = -1;  // of /dev/shm
  std::vector<int> numa_nodes;                  // of the cores this process is bound to; empty: not bound
};

/// One thing that `amdahl doctor` has to say.
struct Finding {
  enum class Severity { notice, warning, fault };  // notices do not fail
  std::string name;                                // stable, hyphenated: "no-peer-access"
  Severity severity = Severity::fault;
  std::string where;  // "gpu 0 -> gpu 1", "host"
  std::string measured, expected, why;
  std::string remedy;  // the command or setting that mends it
};
/// "notice", "warning", "fault".
AMDAHL_API std::string_view to_string(Finding::Severity severity);

struct DoctorConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // how many of them; 0: all GPUs, or 2 virtual devices
  double min_gbps = 0;           // as in LinksConfig
  bool peer_access = true;       // as in LinksConfig
  uint64_t seed = 42;
  double timeout_seconds = 60;
  std::string sysfs = "/sys";    // as in TopoConfig
  std::string shm = "/dev/shm";  // where the host keeps shared memory
  std::string nccl_log;          // file that NCCL's log goes to (NCCL_DEBUG_FILE); empty: none
  std::string study;             // run folder of a study, for what it shows of how training is set up; empty: none
  std::string output_dir;        // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::string command_line;                  // recorded
  void (*on_fatal)(const Error&) = nullptr;  // as in EngineConfig
};

struct DoctorOutcome {
  MachineSpec machine;  // as `amdahl links` leaves it
  std::vector<Finding> findings;
  std::vector<std::string> checked, unseen;  // findings that were looked for; what could not be looked at, and why
  std::vector<Record> records;
  std::string run_dir;
  bool failed = false;  // a warning or a fault
};
AMDAHL_API std::string to_text(const DoctorOutcome& outcome);
/// docs/schema/doctor.schema.json.
AMDAHL_API std::string to_json(const DoctorOutcome& outcome);

/// The same collectives over several transports, each in processes of its own: NCCL reads its settings once a process.
struct ArenaConfig {
  CollectivesConfig sweep;  // buffers and graphs are as the transport says; `graph` is the calls of those with graphs
  std::vector<std::string> transports{"all"};  // names of the table; "all": each that this machine can run
  std::string program;                         // path of the amdahl program, which runs them
  std::vector<std::string> (*arguments)(const CollectivesConfig& sweep) = nullptr;  // with which it runs a sweep
  double transport_seconds = 300;                                                   // deadline of one transport
};

struct ArenaOutcome {
  std::vector<Record> records;  // collectives, and one of kind "transport" for each not measured to its end
  std::map<std::string, std::map<std::string, std::string>> settings;  // NCCL's variables by transport
  std::string run_dir;
  bool failed = false;  // wrong elements, or nothing measured
  std::string waived;
};
/// One table per size.
AMDAHL_API std::string to_text(const ArenaOutcome& outcome);
/// docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const ArenaOutcome& outcome);
/// Lines for a shell: the settings that are best over most sizes.
AMDAHL_API std::string to_environment(const ArenaOutcome& outcome);

}  // namespace amdahl

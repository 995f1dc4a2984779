// The fabric: the links between the devices of a machine. Configurations and outcomes of the verbs topo, links,
// collectives, doctor and arena, which amdahl/amdahl.h declares with their errors. Measurements are Records. Plain
// data.
//
// Example:
//   amdahl::CollectivesConfig config;
//   config.backend = "cpu";
//   config.collectives = {"all_reduce", "broadcast"};
//   amdahl::Observer quiet;
//   std::puts(to_text(amdahl::run_collectives(config, quiet)).c_str());
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
  int virtual_devices = 0;  // describes this many CPU virtual devices instead of GPUs; 0: the GPUs, or 2 without GPUs
  std::string sysfs = "/sys";  // sysfs of the kernel, or a copy of another machine's
};

struct TopoOutcome {
  MachineSpec machine;
};
/// The matrix of paths as nvidia-smi prints it, with a legend.
AMDAHL_API std::string to_text(const TopoOutcome& outcome);
/// JSON, schema docs/schema/machine.schema.json.
AMDAHL_API std::string to_json(const TopoOutcome& outcome);
/// A graph for Graphviz.
AMDAHL_API std::string to_dot(const TopoOutcome& outcome);
/// The matrix as a drawing.
AMDAHL_API std::string to_svg(const TopoOutcome& outcome);

/// A test of `amdahl links`.
struct LinkTestInfo {
  std::string name, group, summary;
};

struct LinksConfig {
  std::string backend = "auto";               // auto, cpu, cuda
  std::vector<int> gpus;                      // CUDA device indices; empty: all, in order
  int devices = 0;                            // number of devices; 0: all GPUs, or 2 virtual devices
  std::vector<std::string> tests{"default"};  // names of tests or groups, "default", "all"
  int64_t buffer_bytes = 0;                   // per flow; 0: 512 MiB on GPUs, 16 MiB on CPU
  int copies = 0;                             // per sample; 0: 16 on GPUs, 4 on CPU
  int samples = 3;
  bool check = true;        // verify the data of every copy
  bool traffic = true;      // test integrity also while other copies run
  bool peer_access = true;  // false: copy through host memory, as on a machine without peer access
  int injected_faults = 0;  // integrity: corruptions to inject, which the test must find
  double min_gbps = 0;      // pairs below it count as slow whatever is expected of them, GB/s; 0: none
  FreshProcesses repeat;    // every process makes the whole measurement
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every wait, s
  std::string output_dir;       // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::string command_line;                  // recorded
  void (*on_fatal)(const Error&) = nullptr;  // as in EngineConfig
};

struct LinksOutcome {
  MachineSpec machine;            // with the measured rates of its links, and quarantined pairs
  std::vector<Record> records;    // kinds "link", "integrity", "integrity-proof"
  std::vector<std::string> slow;  // one line per pair below 90 % of its expected rate, or below min_gbps
  std::string run_dir;
  bool failed = false;  // corruption, a slow pair, or a cell that did not fit into memory
};
/// One matrix per test.
AMDAHL_API std::string to_text(const LinksOutcome& outcome, int width = 0);
/// The machine and the records in JSON.
AMDAHL_API std::string to_json(const LinksOutcome& outcome);
/// Heat map of copy engine bandwidth by pair; empty when it was not measured.
AMDAHL_API std::string to_svg(const LinksOutcome& outcome);

struct CollectivesConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // number of devices; 0: all GPUs, 2 virtual devices, or all ranks of a launched job
  // In `collectives`, `dtypes` and `ops`, "all" means every one. Each combination is a separate sweep.
  std::string processes = "gloo";                      // as in EngineConfig
  std::string comm = "auto", comm_table;               // as in EngineConfig
  std::vector<std::string> collectives{"all_reduce"};  // amdahl's names, or those of the programs of nccl-tests
  std::vector<std::string> dtypes{"f32"};              // f32, f64, f16, bf16, i32, i64, u8, u32, or nccl-tests' names
  std::vector<std::string> ops{"sum"};                 // sum, prod, min, max, avg; for collectives that reduce
  int root = 0;
  int64_t min_bytes = 8, max_bytes = 32 << 20;  // of the larger of a rank's two buffers
  int64_t step_bytes = 0;                       // increment; 0: sizes grow by step_factor
  int step_factor = 2;
  int iterations = 20, warmup = 5;
  bool check = true;      // verify every received element, once per size and placement
  int graph = 0;          // calls per captured graph, which is replayed `iterations` times; 0: eager
  int registration = 0;   // buffers are 0: plain, 1: registered, 2: symmetric windows
  FreshProcesses repeat;  // every process makes the whole measurement
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every collective and wait, s
  std::string output_dir;       // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> nccl_settings;  // as nccl_settings() returns them; also in `environment`
  std::string command_line;                          // recorded
  MachineSpec machine;                               // as in EngineConfig
  void (*on_fatal)(const Error&) = nullptr;          // as in EngineConfig
};

struct CollectivesOutcome {
  std::vector<Record> records;  // one per collective, size and placement
  std::string run_dir;
  bool failed = false;  // wrong elements, or a rate above what the links can carry
  std::string waived;   // why nothing was measured (a single rank); empty: measured
  bool is_root = true;
};
/// A table for a terminal.
AMDAHL_API std::string to_text(const CollectivesOutcome& outcome, int width = 0);
/// The table in the format of nccl-tests.
AMDAHL_API std::string to_nccl_tests(const CollectivesOutcome& outcome);
/// JSON, schema docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const CollectivesOutcome& outcome);
/// Chart of bus bandwidth over size; empty when no size has one.
AMDAHL_API std::string to_svg(const CollectivesOutcome& outcome);

/// Readings of a card at one time. Values that the driver does not report stay negative or 0.
struct DeviceState {
  int index = 0;
  double temperature_c = -1, slowdown_c = -1;  // now, and the slowdown threshold, degrees Celsius
  double power_w = -1, power_limit_w = -1;
  double sm_clock_mhz = -1, utilisation_percent = -1;
  int num_processes = -1;  // compute processes on the card
  int64_t used_memory_bytes = -1;
  int pcie_generation = 0, pcie_lanes = 0;  // current state of the link to its slot; idle cards lower the generation
  uint64_t throttle_reasons = 0;            // nvmlClocksEventReasons
};

/// Host resources that this process may use.
struct HostState {
  int64_t shm_bytes = -1, shm_free_bytes = -1;  // of /dev/shm
  std::vector<int> numa_nodes;                  // of the cores that this process is bound to; empty: not bound
};

/// One finding of `amdahl doctor`.
struct Finding {
  enum class Severity { notice, warning, fault };  // a notice does not fail the run
  std::string name;                                // stable, hyphenated: "no-peer-access"
  Severity severity = Severity::fault;
  std::string where;  // "gpu 0 -> gpu 1", "host"
  std::string measured, expected, why;
  std::string remedy;  // command or setting that fixes it
};
/// "notice", "warning", "fault".
AMDAHL_API std::string_view to_string(Finding::Severity severity);

struct DoctorConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // number of devices; 0: all GPUs, or 2 virtual devices
  double min_gbps = 0;           // as in LinksConfig
  bool peer_access = true;       // as in LinksConfig
  uint64_t seed = 42;
  double timeout_seconds = 60;
  std::string sysfs = "/sys";    // as in TopoConfig
  std::string shm = "/dev/shm";  // mount point of the host's shared memory
  std::string nccl_log;          // NCCL's log file (NCCL_DEBUG_FILE); empty: none
  std::string study;             // run folder of a study whose training setup is checked; empty: none
  std::string output_dir;        // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::string command_line;                  // recorded
  void (*on_fatal)(const Error&) = nullptr;  // as in EngineConfig
};

struct DoctorOutcome {
  MachineSpec machine;  // with measured links, as in LinksOutcome
  std::vector<Finding> findings;
  std::vector<std::string> checked, unseen;  // names of the checks made; what could not be checked, and why
  std::vector<Record> records;
  std::string run_dir;
  bool failed = false;  // a warning or a fault
};
AMDAHL_API std::string to_text(const DoctorOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/doctor.schema.json.
AMDAHL_API std::string to_json(const DoctorOutcome& outcome);

/// One sweep of collectives over several transports. Each transport runs in separate processes, because NCCL reads its
/// settings once per process.
struct ArenaConfig {
  /// The transport decides about registration and graphs; `graph` is the number of calls for transports with graphs.
  CollectivesConfig sweep;
  std::vector<std::string> transports{"all"};  // names of transports; "all": each one that this machine can run
  std::string program;                         // path of the amdahl program that runs the sweeps
  std::vector<std::string> (*arguments)(const CollectivesConfig& sweep) = nullptr;  // its arguments for a sweep
  double transport_seconds = 300;                                                   // deadline of one transport, s
};

struct ArenaOutcome {
  std::vector<Record> records;  // of collectives, and one of kind "transport" per incomplete transport
  std::map<std::string, std::map<std::string, std::string>> settings;  // transport -> NCCL variables
  std::string run_dir;
  bool failed = false;  // wrong elements, or nothing measured
  std::string waived;   // as in CollectivesOutcome
};
/// One table per size.
AMDAHL_API std::string to_text(const ArenaOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const ArenaOutcome& outcome);
/// Shell assignments of the settings that are fastest at most sizes.
AMDAHL_API std::string to_environment(const ArenaOutcome& outcome);

}  // namespace amdahl

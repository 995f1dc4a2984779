// The fabric: the links between the devices of a machine. Verbs that measure transfers, collectives and one-sided
// communication, and one that looks for faults. Measurements are Records. Plain data.
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
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// A test of run_links.
struct LinkTestInfo {
  std::string name, group, summary;
};
/// The tests of run_links, in the order they run.
AMDAHL_API std::vector<LinkTestInfo> list_link_tests();

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
/// Measures bandwidth, latency and integrity of the transfers between the memories of this machine. Error{usage} for
/// options out of range and unknown tests.
AMDAHL_API LinksOutcome run_links(const LinksConfig& config, Observer& observer);

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
/// Measures collectives over a sweep of sizes; with `check`, every received element is verified. Error{usage} for
/// options out of range, unknown names, and reductions that have no exact result to verify.
AMDAHL_API CollectivesOutcome run_collectives(const CollectivesConfig& config, Observer& observer);

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
/// Measures one sweep over every transport, one transport after another. A transport that fails or exceeds its deadline
/// keeps its finished sizes and adds a Record of kind "transport" with the reason; the others continue. Error{usage}
/// for unknown transports and in a job of several processes; Error{environment_missing} for a transport that was named
/// and is not available.
AMDAHL_API ArenaOutcome run_arena(const ArenaConfig& config, Observer& observer);

/// y[m,n] = x[m,k] w[n,k]^T, over all ranks.
struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
};

/// Rows that are added up over the ranks and normalised.
struct NormSizes {
  int64_t rows = 0, width = 0;
};

struct OneSidedConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 2;               // ranks, 2 to 16
  /// Partitions of ONE GPU that count as ranks, whose numbers are emulated; 0: each rank is a device.
  int partitions = 0;
  /// What ranks are: threads (of this process), processes (that this verb starts). GPUs are driven by threads unless
  /// only processes are named. A launched job is processes.
  std::vector<std::string> ranks{"threads", "processes"};
  /// Operations: put, get, put_signal, signal, fetch_add, contended_add, put_fence, put_quiet, barrier, send_recv,
  /// all_reduce, or all.
  std::vector<std::string> operations{"all"};
  /// Measures patterns of programs (parameter server, halo exchange and others) instead of operations, on CPUs.
  bool patterns = false;
  /// Measures GEMMs with an all-gather before or a reduce-scatter after them instead: the collective beside the whole
  /// GEMM against tiles that are pushed one by one.
  bool gemm = false;
  std::vector<GemmSizes> shapes;  // of these GEMMs; empty: a few
  std::vector<int> tiles{1, 4};   // numbers of tiles of each rank's rows, 1 to 64
  /// Measures an all-reduce and a layer normalisation instead: two operations, against one kernel.
  bool norm = false;
  std::vector<NormSizes> norm_shapes;  // of these; empty: a few
  /// Measures a kernel on data in its own, another rank's and host memory instead, there and after a copy.
  bool locality = false;
  /// Other libraries measured beside, between GPUs: nvshmem (by the program amdahl-nvshmem next to `program`).
  std::vector<std::string> peers;
  int64_t min_bytes = 8, max_bytes = 64 << 20;  // sizes: powers of 4 between them, and both
  int samples = 20;
  double least_sample_us = 1000;             // an operation is repeated until a sample takes as long
  std::vector<int> threads{256}, blocks{1};  // of the kernel that executes the operations, on GPUs
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every wait, s
  std::string output_dir;       // run folder; empty: none is written
  std::string program;          // path of the amdahl program, to start ranks as processes
  std::vector<std::string> (*arguments)(const OneSidedConfig& config) = nullptr;  // its arguments
  std::map<std::string, std::string> environment;
  std::string command_line;                  // recorded
  void (*on_fatal)(const Error&) = nullptr;  // as in EngineConfig
};

/// Where a method overtakes another on one machine, for ranks of one kind.
struct OneSidedChoice {
  std::string device_kind, ranks;  // "cpu-virtual", "threads"
  int devices = 2;
  bool emulated = false;
  /// Best rule of the form: up to flagged_bytes ll, up to line_bytes ll128, up to one_shot_bytes one-shot, then
  /// two-shot. Without ll128 (CPU ranks, links over PCIe) line_bytes is 0.
  int64_t flagged_bytes = 0, line_bytes = 0, one_shot_bytes = 0;
  /// Best rule of the form: one-sided up to this size, then send and receive; -1: always the latter.
  int64_t one_sided_bytes = -1;

  /// A fixed rule, and how much longer it takes than the fastest method of each size.
  struct Rule {
    std::string decision;                    // "all_reduce", "point_to_point"
    std::string rule;                        // "one-sided up to 1,024 bytes, else two-sided"
    double mean_ratio = 1, worst_ratio = 1;  // geometric mean and maximum over the sizes of time / fastest time
    int64_t worst_bytes = 0;
  };
  std::vector<Rule> rules;
};

struct OneSidedOutcome {
  /// Of kinds "onesided", "onesided-pattern", "onesided-gemm", "onesided-norm" and "onesided-locality".
  std::vector<Record> records;
  std::vector<OneSidedChoice> choices;
  std::string run_dir;
  bool failed = false;  // wrong bytes, or a size that did not fit into memory
  bool is_root = true;
};
/// Tables for a terminal.
AMDAHL_API std::string to_text(const OneSidedOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const OneSidedOutcome& outcome);
/// The choices in JSON, schema docs/schema/onesided.schema.json: the file of EngineConfig::comm_table.
AMDAHL_API std::string to_choice_json(const OneSidedOutcome& outcome);

/// Measures one-sided operations against two-sided ones, every byte verified once per size. Writes records.jsonl,
/// report.txt and onesided.json into `output_dir`. Error{usage} for configurations out of range,
/// Error{environment_missing} when the ranks do not reach each other's memory, Error{out_of_memory} when the largest
/// size does not fit.
AMDAHL_API OneSidedOutcome run_onesided(const OneSidedConfig& config, Observer& observer);

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

/// One finding of run_doctor.
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
/// Checks topology, health, links, integrity and collectives in at most two minutes. With `nccl_log`, NCCL_DEBUG=INFO
/// and NCCL_DEBUG_FILE must be in the process environment. Error{usage} in a job of several processes.
AMDAHL_API DoctorOutcome run_doctor(const DoctorConfig& config, Observer& observer);

}  // namespace amdahl

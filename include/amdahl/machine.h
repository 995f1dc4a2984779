// MachineSpec: devices, links, host and library versions of a machine, and its file. EngineConfig: which of its devices
// compute and how, for every verb that runs on them; Observer: who hears of their progress. Plain data.
//
// Example: the path between GPUs 0 and 1.
//   const amdahl::MachineSpec machine = amdahl::run_topo({}).machine;
//   if (const amdahl::LinkSpec* link = machine.link(0, 1))
//     std::printf("%s, %.0f GB/s\n", std::string(to_string(link->path)).c_str(), link->raw_gbps);
//
// Example: two virtual devices on the CPU, reproducible.
//   amdahl::EngineConfig engine;
//   engine.backend = "cpu";
//   engine.deterministic = true;
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/plan.h"

namespace amdahl {

/// Version of this build, "0.1.0".
AMDAHL_API std::string version();
/// Git commit of the source, or "unknown".
AMDAHL_API std::string build_commit();

/// One compute device. `kind` is "cuda" or "cpu-virtual" (CPU threads that emulate a GPU).
struct DeviceSpec {
  int index = 0;
  std::string kind;
  std::string name;
  std::string uuid;          // empty for virtual devices
  int64_t memory_bytes = 0;  // total, 0 when unknown
  int sm_count = 0;          // 0 for virtual devices
  int whole_sm_count = 0;    // SM-limited devices: multiprocessors of the whole GPU; else 0
  std::string compute_capability;
  std::string pci_bus_id;   // "0000:1b:00.0"; empty for virtual devices
  int numa_node = -1;       // of the socket that it is attached to; -1 when unknown
  int pcie_generation = 0;  // maximum of the link to its slot; 0 when unknown
  int pcie_lanes = 0;       // maximum of the link to its slot; 0 when unknown
  int num_links = 0;        // NVLinks that are up
  int num_links_down = 0;   // NVLinks of the card that are down
  double copy_gbps = 0;     // bytes read plus written by a copy within the device, GB/s; 0: not measured
};

/// Kind of path between two devices, fastest first, as `nvidia-smi topo` names it. `host`: between virtual devices,
/// which share the host's memory.
enum class PathKind { self, nvlink, pix, pxb, phb, node, sys, host };
/// "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "HOST".
AMDAHL_API std::string_view to_string(PathKind kind);

/// The path from one device to another. Every ordered pair has its own, because links need not be symmetric.
struct LinkSpec {
  int source = 0, destination = 0;  // DeviceSpec::index
  PathKind path = PathKind::sys;
  int num_links = 0;            // NVLinks between them, directly or through switches
  int nvlink_version = 0;       // generation: 4 on Hopper, 0 without NVLink
  bool through_switch = false;  // NVSwitch
  double raw_gbps = 0;          // lanes x signalling rate, one direction, GB/s; 0 when unknown
  double expected_gbps = 0;     // raw_gbps x protocol efficiency of the best transfer method, GB/s
  bool peer_access = false;     // as the driver reports
  bool peer_atomics = false;
  std::string why_no_peer_access;  // empty with peer access, or when unknown
  double measured_gbps = 0;        // of large copies in one direction, by run_links, GB/s; 0: not measured
  double latency_us = 0;           // by run_links, us; 0: not measured
  std::string quarantine;          // why direct transfers of this pair are forbidden; empty: allowed
};

/// One NUMA node of the host.
struct NumaNode {
  int index = 0;
  std::string cores;  // "0-15,32-47"
  int64_t memory_bytes = 0;
};

/// Spread of the medians of fresh processes on this machine, from a run of several processes.
struct ProcessSpread {
  std::string kind;         // of the records: "study-run", "collective", "link", "sensor"
  std::string device_kind;  // "cuda", "cpu-virtual"
  std::string cell;         // axes: "collective=all_reduce devices=4 ..."
  double relative_sd = 0;   // standard deviation of the logarithm of a process's median
  int64_t processes = 0;    // number of processes
  double runs = 0;          // samples per process
};

struct MachineSpec {
  std::string host;
  std::string os;
  std::string cpu_name;
  int num_cores = 0;     // cores this process may use
  double cpu_limit = 0;  // processors that its control group allows, which may be less than a core; 0: no limit
  int num_numa_nodes = 1;
  int64_t memory_bytes = 0;
  std::vector<DeviceSpec> devices;  // real accelerators; empty without a GPU
  std::vector<LinkSpec> links;      // one per ordered pair of different devices
  std::vector<NumaNode> numa_nodes;
  std::string iommu;  // "off", "translated", "passthrough"; empty when the host does not show it
  std::string acs;    // PCI bridges between devices that redirect peer traffic, "0000:17:01.0 ..."; or empty
  std::vector<ProcessSpread> process_spreads;   // by run_calibrate
  std::map<std::string, std::string> versions;  // "driver", "cuda", "nccl", "cublas", "onednn", ... as found

  /// The path from one device index to another; null when unknown. Valid as long as `links` is unchanged.
  const LinkSpec* link(int source, int destination) const {
    for (const LinkSpec& candidate : links)
      if (candidate.source == source && candidate.destination == destination) return &candidate;
    return nullptr;
  }
};

/// An optional component of the program, as run_info lists it.
struct BackendStatus {
  std::string name;
  Availability availability;
  std::string version;
};

/// Figures of a data sheet; rates of dense matrix products, 1 GB = 10^9 bytes.
struct GpuKind {
  std::string name;
  double tf32_tflops = 0, bf16_tflops = 0, fp32_tflops = 0;  // fp16 has the rate of bf16
  double memory_gbps = 0, memory_gb = 0;
  int multiprocessors = 0;
  double cache_mb = 0;  // level 2
  std::string link;     // that it usually has to its peers: a name of the planner's catalogue
  std::string source;   // of the figures
};

/// Reads a kind from a TOML file; data/gpu-a100-40gb.toml is an example. Error{usage} that names file, line and key
/// when the file cannot be read, a figure is missing or implausible, or a key is unknown. Thread-safe.
AMDAHL_API GpuKind load_gpu_kind(const std::string& path);

struct InfoOutcome {
  MachineSpec machine;
  std::vector<BackendStatus> backends;
};
/// JSON, schema docs/schema/info.schema.json.
AMDAHL_API std::string to_json(const InfoOutcome& outcome);
/// Describes this machine and the optional backends of this build. Measures nothing.
AMDAHL_API InfoOutcome run_info(const std::map<std::string, std::string>& environment);

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
/// The devices of this machine and the links between them. Measures nothing. Error{usage} for `virtual_devices` out of
/// range.
AMDAHL_API TopoOutcome run_topo(const TopoConfig& config);

/// Reads a machine file of run_links or the JSON of a TopoOutcome. Error{usage} when it cannot be read or describes
/// another host; Error{store_corrupt} when it is no machine file; Error{version_refused}.
AMDAHL_API MachineSpec load_machine(const std::string& path);
/// Throws Error{usage} when `path` is a file that describes another host or no machine, which save_machine would have
/// to replace; Error{version_refused}.
AMDAHL_API void check_machine_file(const std::string& path);
/// Writes a machine file and returns its contents. Process spreads and quarantined pairs of an existing file are kept.
/// Errors as save_text and check_machine_file, and Error{usage} when a pair that is quarantined in the existing file is
/// not a pair of these devices.
AMDAHL_API MachineSpec save_machine(const std::string& path, const MachineSpec& machine);
/// Variables that must be in the process environment before a verb opens NCCL, so that no quarantined pair of `machine`
/// transfers data directly; empty without quarantined pairs.
AMDAHL_API std::map<std::string, std::string> safe_environment(const MachineSpec& machine);

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

struct StudyPlan;  // of amdahl/study.h

/// Receives the progress of a verb. Except for `cancelled`, its functions are called on the root process only, by one
/// thread at a time: the thread that called the verb, or the thread of rank 0 while the calling thread waits for it.
/// `cancelled` must be thread-safe.
class AMDAHL_API Observer {
 public:
  virtual ~Observer() = default;
  /// The plan of a study, before its first run.
  virtual void planned(const StudyPlan& plan) { (void)plan; }
  /// One line of information, without a newline.
  virtual void note(const std::string& line) { (void)line; }
  /// A problem that does not end the job.
  virtual void warning(const std::string& line) { (void)line; }
  /// `done` of `total` units of work are complete; `what` names the current one.
  virtual void progress(int done, int total, const std::string& what) { (void)done, (void)total, (void)what; }
  /// Polled on every process between steps and while ranks wait, by any of their threads, also concurrently. When it
  /// returns true, the verb keeps every finished record and throws Error{interrupted}.
  virtual bool cancelled() { return false; }
};

/// The NCCL variables of a named profile (empty: none), overridden by assignments ("NCCL_ALGO=Ring"). They are checked
/// alone and together with `environment`. They must be in the process environment before a verb uses NCCL, which reads
/// them once. Error{usage} for an unknown profile or variable, and for values that NCCL does not accept, those of
/// `environment` included.
AMDAHL_API std::map<std::string, std::string> nccl_settings(const std::string& profile,
                                                            const std::vector<std::string>& assignments,
                                                            const std::map<std::string, std::string>& environment);

/// Records a received signal in the flight recorders of this process's ranks, so that failure.json can name it.
/// Async-signal-safe and thread-safe.
AMDAHL_API void note_signal(int signal) noexcept;

/// Moves what `dir` holds aside, if that is a run or the parts of `run_all`, so that a verb may write a new run there;
/// on rank 0 of a launched job, nothing on the others. Returns the folder aside; empty: nothing was moved.
/// Error{usage} when the folder holds files but no run, or cannot be moved.
AMDAHL_API std::string put_run_aside(const std::string& dir, const std::map<std::string, std::string>& environment);
/// Removes the folder aside when `dir` holds a new run, otherwise moves it back.
AMDAHL_API void settle_run_aside(const std::string& dir, const std::string& aside);

}  // namespace amdahl

// The fabric: what the devices of a machine are to each other. Configurations and outcomes of the verbs topo, links,
// collectives and doctor. Measurements are Records; text is what a terminal shows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

struct TopoConfig {
  int virtual_devices = 0;     // describe this many CPU virtual devices instead of GPUs; 0: GPUs, or 2 without any
  std::string sysfs = "/sys";  // where the kernel shows its devices; a copy of another machine's works too
};

struct TopoOutcome {
  MachineSpec machine;
  std::string matrix;  // in the letters of nvidia-smi, with a legend of what occurs
  std::string json;    // docs/schema/machine.schema.json
  std::string dot;     // Graphviz
  std::string svg;
};

/// Which devices a fabric measurement uses.
struct FabricConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // how many of them; 0: all (2 virtual devices on CPU)
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every wait
  bool quick = false;           // fewer sizes and repetitions, for a first look
  std::string output_dir;       // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::string command_line;                  // recorded
  void (*on_fatal)(const Error&) = nullptr;  // as in EngineConfig
};

struct LinksConfig {
  FabricConfig fabric;
  std::vector<std::string> tests;    // names of the test table; empty: the default set
  std::vector<int64_t> sizes;        // bytes; empty: a sweep
  int64_t buffer_bytes = 512 << 20;  // of bandwidth tests without a sweep
  int iterations = 3;                // samples a cell
  double min_gbps = 0;               // fail pairs below this; 0: none
  bool integrity = true;             // verify every path under the pattern table
  bool traffic = false;              // and under concurrent traffic
};

struct LinksOutcome {
  MachineSpec machine;  // with measured rates, latencies and quarantined pairs
  std::vector<Record> records;
  std::vector<std::string> slow;  // one line per pair below what its links should give or below min_gbps
  std::string text;
  std::string json;
  std::string run_dir;
  bool failed = false;  // corruption or a pair below min_gbps
  bool is_root = true;
};

struct CollectivesConfig {
  FabricConfig fabric;
  std::vector<std::string> collectives;    // rows of the collective table; empty: all_reduce
  std::vector<std::string> dtypes{"f32"};  // f32, f64, f16, bf16, i32, i64, u8
  std::vector<std::string> ops{"sum"};     // sum, prod, min, max, avg
  int root = 0;
  int64_t min_bytes = 8, max_bytes = 128 << 20;
  int64_t step_bytes = 0;  // fixed increment; 0: step_factor
  int step_factor = 2;
  int iterations = 20, warmup = 5;
  int check = 1;                        // verify every element once per size; 0: never
  int graph = 0;                        // calls per captured graph; 0: eager
  int registered = 0;                   // 0 plain, 1 user-registered buffers, 2 symmetric windows
  std::vector<std::string> transports;  // rows of the transport table; empty: the default; "all": the arena
  std::string profile;                  // named environment profile, for example "pcie-host"
};

struct CollectivesOutcome {
  std::vector<Record> records;
  std::string text;        // own table, with the arena when several transports ran
  std::string nccl_tests;  // the same rows as nccl-tests prints them
  std::string json;
  std::string environment;  // file of NCCL_* settings that the arena found best; empty when the default is
  std::string run_dir;
  bool failed = false;  // wrong elements
  bool waived = false;  // one rank
  bool is_root = true;
};

/// What doctor looks at: one finding of the table, with evidence.
struct Finding {
  enum class Severity { ok, notice, warning, fault };
  std::string name;  // stable, hyphenated: "no-peer-access"
  Severity severity = Severity::ok;
  std::string where;     // "gpu 0 -> gpu 1", "host"
  std::string measured;  // with unit
  std::string expected;  // with unit
  std::string why;
  std::string remedy;  // the command that mends it
};

struct DoctorConfig {
  FabricConfig fabric;
  double budget_seconds = 120;
};

struct DoctorOutcome {
  MachineSpec machine;
  std::vector<Finding> findings;
  std::vector<Record> records;
  std::string text;
  std::string json;
  std::string run_dir;
  bool failed = false;  // any fault or warning
  bool is_root = true;
};

}  // namespace amdahl

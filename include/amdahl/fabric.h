// The fabric: what the devices of a machine are to each other. Configurations and outcomes of the verbs topo and
// collectives. Measurements are Records; text is what a terminal shows.
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

struct CollectivesConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // how many of them; 0: all GPUs, 2 virtual devices, or all ranks of a launched job
  // Of these three "all" means every one; each combination is a sweep of its own.
  std::vector<std::string> collectives{"all_reduce"};  // names of the table, or nccl-tests' program names
  std::vector<std::string> dtypes{"f32"};              // f32, f64, f16, bf16, i32, i64, u8, or nccl-tests' names
  std::vector<std::string> ops{"sum"};                 // sum, prod, min, max, avg; of the collectives that reduce
  int root = 0;
  int64_t min_bytes = 8, max_bytes = 32 << 20;  // of the larger buffer of a rank
  int64_t step_bytes = 0;                       // fixed increment; 0: step_factor
  int step_factor = 2;
  int iterations = 20, warmup = 5;
  bool check = true;     // verify every received element, once per size and placement
  int graph = 0;         // calls a captured graph, replayed `iterations` times; 0: eager
  int registration = 0;  // of the buffers: 0 plain, 1 registered, 2 symmetric windows
  uint64_t seed = 42;
  double timeout_seconds = 60;  // deadline of every collective and wait
  std::string output_dir;       // run folder; empty: none is written
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> nccl_settings;  // of `nccl_settings()`, part of `environment`
  std::string command_line;                          // recorded
  void (*on_fatal)(const Error&) = nullptr;          // as in EngineConfig
};

struct CollectivesOutcome {
  std::vector<Record> records;  // one a collective, size and placement
  std::string text;             // table
  std::string nccl_tests;       // the same rows as nccl-tests prints them
  std::string json;
  std::string run_dir;
  bool failed = false;  // wrong elements, or a rate that no link can have
  std::string waived;   // why nothing could be measured: one rank
  bool is_root = true;
};

/// The same collectives over several transports, each in processes of its own: NCCL reads its settings once a process.
struct ArenaConfig {
  CollectivesConfig sweep;  // buffers and graphs are as the transport says; `graph` is the calls of those with graphs
  std::vector<std::string> transports{"all"};  // names of the table; "all": each that this machine can run
  std::string program;                         // path of the amdahl program, which runs them
  double transport_seconds = 300;              // deadline of one transport
};

struct ArenaOutcome {
  std::vector<Record> records;  // collectives, and one of kind "transport" for each not measured to its end
  std::string text;             // a table a size
  std::string json;
  std::string environment_file;  // lines for a shell: the settings that are best over most sizes
  std::string run_dir;
  bool failed = false;  // wrong elements, or nothing measured
  std::string waived;
};

}  // namespace amdahl

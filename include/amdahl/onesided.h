// One-sided communication: configuration and outcome of the verb `onesided`, and the sizes at which a method of
// communication overtakes another. Measurements are Records. Plain data.
//
// Example:
//   amdahl::OneSidedConfig config;
//   config.backend = "cpu";
//   config.max_bytes = 1 << 20;
//   amdahl::Observer quiet;
//   std::puts(to_text(amdahl::run_onesided(config, quiet)).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/engine.h"
#include "amdahl/error.h"
#include "amdahl/record.h"

namespace amdahl {

class Observer;

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

}  // namespace amdahl

// The study: step times and throughput of a model per number of devices and batch size, with verdicts. Plain data.
//
// Example:
//   amdahl::StudyConfig config;
//   config.engine.backend = "cpu";
//   config.output_dir = "runs/study";
//   amdahl::Observer quiet;
//   std::puts(to_text(amdahl::run_study(config, quiet)).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/summary.h"
#include "amdahl/training.h"

namespace amdahl {

/// One cell of a study's plan.
struct PlannedCell {
  int64_t global_batch = 0;
  int devices = 1;
  std::string strategy;
  int64_t memory_bytes_per_device = 0;  // modelled: parameters, optimizer state, activations and resident batches
  int runs = 0;
  std::string launch, math;
};

struct StudyPlan {
  ModelSpec model;
  std::string data_name;
  std::string device_kind;
  std::vector<DeviceSpec> devices;
  std::vector<PlannedCell> cells;
  std::string decision;         // of the selector in mode auto, with its reason: one line per batch size
  double expected_seconds = 0;  // predicted from a calibration of the machine; 0: there is none
  std::vector<std::string> notes;
  bool is_root = true;  // whether this process reports to its Observer
};

struct StudyConfig {
  EngineConfig engine;
  TrainingConfig training;
  std::string
      mode;  // single, multi (compares both), auto (uses the selector); empty: multi with several devices, else single
  /// Of one device: auto (also measures its other launch and math modes and half batches), none.
  std::string variants = "auto";
  /// Device counts; empty: 1, 2, 4, ... up to the number of GPUs, or 1 and 2 virtual devices on CPU.
  std::vector<int64_t> devices;
  /// Plans to compare with one device and with each other; then without `devices` and `training.strategy`. The fields
  /// that a plan does not name have their defaults.
  std::vector<ParallelPlan> plans;
  std::vector<int64_t> batch_sizes{16, 32, 64, 128};
  Scaling scaling = Scaling::strong;
  int runs = 5, warmup = 10, steps = 100;  // the published procedure has 50 runs
  double rel_ci = 0;  // a batch size ends early once every 95 % interval is this narrow, relative to its mean; 0: never
  /// Few steps besides the timed ones: no warm-up of a cell but that of each run, and one round of the step account
  /// in the first run.
  bool brief = false;
  std::string output_dir;
  bool resume = false;
  std::string evidence;  // mode auto: run folder with records for the selector
  /// Machine file whose calibration the selector uses where it has no records, and from which a study of one device
  /// says from which size on several pay; empty: none.
  std::string calibration;
  TraceConfig trace;         // taken by the last process
  FreshProcesses processes;  // processes that the runs are spread over
};

struct StudyOutcome {
  StudyPlan plan;
  StudySummary summary;
  std::string run_dir;
  std::string report_path;
  bool nothing_fitted = false;  // true: every cell ran out of memory
  std::string thresholds;       // of one device: from which size on several pay, in one line
  bool is_root = true;          // false on the other processes of a launched job, which have no summary
};
/// Tables and verdicts for a terminal of `width` columns, 0 for no limit; so have the other texts that take a width.
AMDAHL_API std::string to_text(const StudyOutcome& outcome, int width = 0);
/// The summary in JSON, schema docs/schema/summary.schema.json.
AMDAHL_API std::string to_json(const StudyOutcome& outcome);

/// The plan of a study, and its expected duration from a few probed steps. Writes nothing. Error{usage} for
/// configurations out of range and infeasible plans, Error{check_failed} for mode multi with one device.
AMDAHL_API StudyPlan plan_study(const StudyConfig& config, Observer& observer);
/// Runs the study and writes records.jsonl, summary.json and report.md into `output_dir`. Errors as plan_study. A
/// cell that runs out of memory gets a failed Record and the study continues; other errors end it.
AMDAHL_API StudyOutcome run_study(const StudyConfig& config, Observer& observer);

/// A study of a user's own training script, whose steps the Python package amdahl_lab counts (docs/python-training.md).
struct ScriptStudyConfig {
  std::vector<std::string> script;   // its path and arguments; or "-m", a module and arguments
  std::string python;                // program or path; empty: python3, else python, of PATH
  std::string package_dir;           // folder that holds amdahl_lab; empty: where Python finds it
  std::string backend = "auto";      // cuda: a GPU a process; cpu: none; auto: cuda where there are GPUs
  std::vector<int64_t> devices;      // numbers of processes; empty: as StudyConfig::devices
  std::vector<std::string> wraps;    // of several devices, told to the script: "ddp", "fsdp2"; empty: its own way
  std::vector<int64_t> batch_sizes;  // global batches, told to the script; empty: its own
  int runs = 5, warmup = 10, steps = 50;
  int account_steps = 10;        // steps after the timed ones that are accounted for; 0: none
  double timeout_seconds = 600;  // of a run
  std::string output_dir;
  std::map<std::string, std::string> environment;  // of the processes, complete
  std::string command_line;                        // recorded
};
/// Runs the script in a fresh group of processes for every run of every number of devices, in turns, and writes a run
/// folder as run_study does. The first run of each cell is not counted: it fills caches and tells the batch. Scaling is
/// strong where all cells have one global batch, weak where all have one batch per device. A cell without enough memory
/// gets a failed Record and the study continues.
/// Error{usage} for counts out of range, no script, and batches that differ in another way; Error{environment_missing}
/// without Python, the package or so many GPUs; Error{check_failed} for a script that fails, with the last line of its
/// standard error, all of which is in failure.txt of the run folder; Error{rank_hung} for a run longer than
/// `timeout_seconds`.
AMDAHL_API StudyOutcome run_script_study(const ScriptStudyConfig& config, Observer& observer);

}  // namespace amdahl

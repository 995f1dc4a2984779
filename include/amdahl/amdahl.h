// The verbs of amdahl. Each takes and returns plain data, prints nothing and does not read the process environment: its
// inputs are in its configuration, and it reports progress to an Observer.
//
// Example:
//   amdahl::StudyConfig config;
//   config.engine.backend = "cpu";
//   config.output_dir = "runs/study";
//   amdahl::Observer quiet;
//   std::puts(to_text(amdahl::run_study(config, quiet)).c_str());
//
// Errors: every verb throws Error. Error{usage} for a configuration that is invalid or contradicts itself,
// Error{environment_missing} for hardware or a library that is not present, Error{interrupted} when
// Observer::cancelled() returned true. A verb that reads a run folder throws Error{store_corrupt} for damaged files and
// Error{version_refused} for an unknown schema version. A verb that writes throws Error{usage} for a path that cannot
// be written and Error{disk_full}. Verbs that run ranks throw the causes of rank, device and memory failures as well.
//
// Threads: a verb that measures must not run beside another one, because they would disturb each other's times.
// Configurations and outcomes are not synchronized.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/advice.h"
#include "amdahl/comparison.h"
#include "amdahl/cost.h"
#include "amdahl/engine.h"
#include "amdahl/error.h"
#include "amdahl/fabric.h"
#include "amdahl/fields.h"
#include "amdahl/machine.h"
#include "amdahl/model_spec.h"
#include "amdahl/onesided.h"
#include "amdahl/plan.h"
#include "amdahl/plans.h"
#include "amdahl/prices.h"
#include "amdahl/record.h"
#include "amdahl/report_page.h"
#include "amdahl/sampling.h"
#include "amdahl/scaling.h"
#include "amdahl/sensor_comparison.h"
#include "amdahl/summary.h"
#include "amdahl/tensor.h"
#include "amdahl/trace.h"
#include "amdahl/training.h"
#include "amdahl/units.h"

namespace amdahl {

/// Version of this build, "0.1.0".
AMDAHL_API std::string version();
/// Git commit of the source, or "unknown".
AMDAHL_API std::string build_commit();

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

struct TrainConfig {
  EngineConfig engine;
  TrainingConfig training;
  int devices = 0;          // 0: one device, all ranks of a launched job, or those of `training.mesh`
  int64_t batch_size = 32;  // global
  int epochs = 20;
  double validation_fraction = 0.2;
  int check_every = 1000;  // steps between bitwise comparisons of the devices' weights; 0: after the last step only
  std::string output_dir;
  std::string save;                    // FILE.safetensors for the weights after the last epoch; empty: none
  int64_t checkpoint_every = 0;        // steps between checkpoints; 0: none
  bool rank_chose_output_dir = false;  // by itself: rank 0's counts. Otherwise all ranks must name the same
  std::string checkpoint_dir;          // empty: the folder "checkpoints" in `output_dir`
  /// Go on from the newest intact checkpoint of `checkpoint_dir`, or begin where it holds none. Records are appended to
  /// a run that `output_dir` already holds. With the same configuration the weights are, bit by bit, those of a
  /// training without interruption, where reruns are bit-equal (CPU devices, or `deterministic`).
  bool resume = false;
  /// When a process of a launched job dies: stop (Error{rank_died}), or shrink: the others go on from the last
  /// checkpoint, with the nearest plan of as many of them as one exists for. Needs `checkpoint_every`, and a launcher
  /// that lets processes live whose peer died. If rank 0 died, all processes must be on one host.
  std::string on_failure = "stop";
};

struct EpochResult {
  int epoch = 0;
  double train_loss = 0, validation_loss = 0;
  double validation_mae = -1;       // mean absolute error; negative for classification
  double validation_accuracy = -1;  // in [0, 1]; negative for regression
  double seconds = 0, samples_per_second = 0;
  int64_t memory_peak_bytes = 0;  // so far, on the first device
  double loss_scale = 0;          // of the next step, in fp16; 0: none
  int64_t skipped_steps = 0;      // so far, because a gradient was not finite, in fp16
};

struct TrainOutcome {
  std::vector<EpochResult> epochs;  // of this process: after `resume` without those before the checkpoint
  std::string run_dir;
  std::string report_path;
  std::string device_kind;
  int devices = 1;
  ModelSpec model;
  std::vector<Record> records;  // one per epoch, on the root process
  bool is_root = true;
  /// After the last epoch, in the order of the layers, on the root process; then the running statistics of layers.
  std::vector<NamedArray> weights;
};
/// The record of the last epoch in JSON, schema docs/schema/record.schema.json; empty on processes other than the root.
AMDAHL_API std::string to_json(const TrainOutcome& outcome);

/// Trains the model. Writes records and a report into `output_dir`; nothing when it is empty. A checkpoint is one file
/// with weights, optimizer state, step, epoch, position in the epoch and seed; it is written under a temporary name and
/// renamed, and the last two are kept. A damaged one is named in Observer::warning, and the one before is used.
/// Error{usage} for configurations out of range, infeasible plans, batches larger than the training data, and
/// checkpoints of another model, data, batch, optimizer or seed; Error{data_corrupt} for damaged data and when every
/// checkpoint is damaged; Error{non_finite} for NaN or infinity in data or loss; Error{check_failed} when the devices'
/// weights differ.
AMDAHL_API TrainOutcome run_train(const TrainConfig& config, Observer& observer);

struct AdviseConfig {
  std::string model;  // preset or JSON file; may be empty when `num_parameters` is given
  int64_t num_parameters = 0;
  int64_t batch_size = 64;
  std::string policy = "measured";  // measured, study: see AdvicePolicy
  std::string evidence;             // run folder of a study; must be empty with policy study
  /// Machine file with a calibration: predictions where there are no records. Must be empty with policy study.
  std::string machine;
  int64_t max_devices = 0;  // of a prediction; 0: those of the machine file
};
/// One device or several, from records or from the thresholds of the published study. Measures nothing. Error{usage}
/// for counts below 1, unknown models and policies, evidence with policy study, and run folders of other kinds.
AMDAHL_API Advice run_advise(const AdviseConfig& config);
AMDAHL_API std::string to_json(const Advice& advice);

struct OutlookConfig {
  std::string evidence;  // run folder of a study that measured one GPU
  std::string link;      // name in link_models(), or path of a machine file of `amdahl links`
  ScalingQuestion question;
};
struct OutlookOutcome {
  ScalingOutlook outlook;
};
AMDAHL_API std::string to_text(const OutlookOutcome& outcome);
/// JSON, schema docs/schema/outlook.schema.json.
AMDAHL_API std::string to_json(const OutlookOutcome& outcome);
/// Predicts the speedup of several GPUs for work that was measured on one GPU, and adds the measured speedup where
/// there is one. Error{usage} for records of CPU virtual devices, an unknown link, and work that was not measured on
/// one GPU.
AMDAHL_API OutlookOutcome run_outlook(const OutlookConfig& config);

/// Expands names to runs: a folder that is no run folder becomes the run folders and the runs in .jsonl and .jsonl.gz
/// files below it, at any depth, sorted by name; every other name stays. Error{usage} for a folder without runs.
AMDAHL_API std::vector<std::string> find_runs(const std::vector<std::string>& names);

/// A run's report.
struct ReportOutcome {
  StudySummary summary;  // of a study only
  std::string markdown;  // of a study or training only
  std::string text;
  std::string json;
  std::string report_path;
  std::vector<std::string> notes;  // what could not be read
};
/// Makes the report of a run from its records; `text` has at most `width` columns (0: any). `write`: also replaces the
/// report in the folder (summary.json and report.md of a study, report.md of a training, else report.txt and drawings).
/// Error{usage} for kinds of run without a report, Error{store_corrupt} for a run without usable records.
AMDAHL_API ReportOutcome run_report(const std::string& run_dir, bool write, int width = 0);
/// Writes one page about all runs, from their files alone: equal files give an identical page. Runs that cannot be read
/// are named in `problem` and `notes` while at least one run can be read; otherwise it throws as run_report does.
AMDAHL_API PageOutcome run_page_report(const PageConfig& config);

struct CompareConfig {
  /// The baseline, then the candidates. "DIR@batch=64,devices=2" selects one cell of a run, "A1+A2" pools two runs into
  /// one side.
  std::vector<std::string> runs;
  bool allow_unlike = false;                         // compare runs whose provenance differs
  std::vector<AxisPair> pairs;                       // also compares cells that differ in these axes only
  std::optional<double> fail_on_regression_percent;  // [0, 100]; absent: never
  std::string html;                                  // page to write; empty: none
  std::string machine;  // file of `run_calibrate`, whose process spread judges sides of one process; empty: none
};
struct CompareOutcome {
  RunsComparison comparison;
  bool regression = false;  // a slowdown of more than `fail_on_regression_percent`
};
AMDAHL_API std::string to_text(const CompareOutcome& outcome, int width = 0);
AMDAHL_API std::string to_markdown(const CompareOutcome& outcome);
/// JSON, schema docs/schema/comparison.schema.json.
AMDAHL_API std::string to_json(const CompareOutcome& outcome);
/// Compares runs cell by cell. Error{usage} for fewer than two runs, runs of different kinds or provenance, and runs
/// without a common cell.
AMDAHL_API CompareOutcome run_compare(const CompareConfig& config);

struct CalibrateConfig {
  std::vector<std::string> runs;  // each measured by at least five processes
  std::string machine;            // file to update; its other contents are kept
};
struct CalibrateOutcome {
  MachineSpec machine;
  std::vector<ProcessSpread> spreads;  // of these runs
  std::string machine_file;            // file that was written
};
/// The spreads as a table.
AMDAHL_API std::string to_text(const CalibrateOutcome& outcome);
/// The machine in JSON, schema docs/schema/machine.schema.json.
AMDAHL_API std::string to_json(const CalibrateOutcome& outcome);
/// Stores the spread between fresh processes on this machine in its machine file; run_compare uses it to judge runs of
/// one process. Error{usage} for runs of fewer than five processes or of a different host, and files that cannot be
/// written.
AMDAHL_API CalibrateOutcome run_calibrate(const CalibrateConfig& config);

struct CostConfig {
  std::vector<std::string> runs;  // run folders or JSON files of studies and sensor benchmarks
  std::string prices;             // TOML file
  std::string html;               // page to write; empty: none
};
struct CostOutcome {
  CostReport report;
};
AMDAHL_API std::string to_text(const CostOutcome& outcome, int width = 0);
AMDAHL_API std::string to_markdown(const CostOutcome& outcome);
/// JSON, schema docs/schema/cost.schema.json.
AMDAHL_API std::string to_json(const CostOutcome& outcome);
/// Computes the cost of the measured work and the size from which several devices pay. Error{usage} for a price file
/// that cannot be read, and for runs of other kinds, without a result, or with different device kinds.
AMDAHL_API CostOutcome run_cost(const CostConfig& config);

/// Runs of `amdahl sensor bench`: run folders, or the JSON that it writes.
struct SensorCompareConfig {
  std::vector<std::string> single;  // on one device
  std::vector<std::string> multi;   // on several
  std::vector<std::string> hetero;  // on heterogeneous devices, in mode hetero
  std::string prices;               // TOML file; empty: no costs
  bool allow_unlike = false;        // compare CPU virtual devices with GPUs
};
struct SensorCompareOutcome {
  SensorComparison comparison;
};
AMDAHL_API std::string to_text(const SensorCompareOutcome& outcome, int width = 0);
AMDAHL_API std::string to_markdown(const SensorCompareOutcome& outcome);
/// JSON, schema docs/schema/sensor-comparison.schema.json.
AMDAHL_API std::string to_json(const SensorCompareOutcome& outcome);
/// Compares preprocessing on one device, several and heterogeneous ones by speed and cost. Error{usage} for files
/// without a sensor run, sides without a result or a common workload, and different device kinds without
/// `allow_unlike`.
AMDAHL_API SensorCompareOutcome run_sensor_compare(const SensorCompareConfig& config);

struct InfoOutcome {
  MachineSpec machine;
  std::vector<BackendStatus> backends;
};
/// JSON, schema docs/schema/info.schema.json.
AMDAHL_API std::string to_json(const InfoOutcome& outcome);
/// Describes this machine and the optional backends of this build. Measures nothing.
AMDAHL_API InfoOutcome run_info(const std::map<std::string, std::string>& environment);

/// The devices of this machine and the links between them. Measures nothing. Error{usage} for `virtual_devices` out of
/// range.
AMDAHL_API TopoOutcome run_topo(const TopoConfig& config);
/// Replaces a text file atomically: readers see the old or the new contents, never a part. Symbolic links are followed
/// and stay. A character device, a pipe or /dev/stdout is written to directly. Error{usage} for a folder, a block
/// device, a socket and a path that cannot be created; Error{disk_full}.
AMDAHL_API void save_text(const std::string& path, const std::string& text);
/// Whether save_text could write to `path` now. Writes nothing.
AMDAHL_API Availability check_output(const std::string& path);
/// Whether `path` is a character device, a pipe or /dev/stdout, whose name does not tell the format.
AMDAHL_API bool is_stream(const std::string& path);

/// Reads a machine file of `amdahl links` or the JSON of `amdahl info --topology=json`. Error{usage} when it cannot be
/// read or describes another host; Error{store_corrupt} when it is no machine file; Error{version_refused}.
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

/// The tests of `amdahl links`, in the order they run.
AMDAHL_API std::vector<LinkTestInfo> list_link_tests();
/// Measures bandwidth, latency and integrity of the transfers between the memories of this machine. Error{usage} for
/// options out of range and unknown tests.
AMDAHL_API LinksOutcome run_links(const LinksConfig& config, Observer& observer);

/// Checks topology, health, links, integrity and collectives in at most two minutes. With `nccl_log`, NCCL_DEBUG=INFO
/// and NCCL_DEBUG_FILE must be in the process environment. Error{usage} in a job of several processes.
AMDAHL_API DoctorOutcome run_doctor(const DoctorConfig& config, Observer& observer);
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

/// Measures collectives over a sweep of sizes; with `check`, every received element is verified. Error{usage} for
/// options out of range, unknown names, and reductions that have no exact result to verify.
AMDAHL_API CollectivesOutcome run_collectives(const CollectivesConfig& config, Observer& observer);

/// Measures one sweep over every transport, one transport after another. A transport that fails or exceeds its deadline
/// keeps its finished sizes and adds a Record of kind "transport" with the reason; the others continue. Error{usage}
/// for unknown transports and in a job of several processes; Error{environment_missing} for a transport that was named
/// and is not available.
AMDAHL_API ArenaOutcome run_arena(const ArenaConfig& config, Observer& observer);

}  // namespace amdahl

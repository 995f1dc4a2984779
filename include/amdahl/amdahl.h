// The verbs of amdahl. Each takes and returns plain data, prints nothing and reads no environment: what it needs to
// know comes in its configuration, and what it has to say goes to an Observer.
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
#include "amdahl/plan.h"
#include "amdahl/prices.h"
#include "amdahl/record.h"
#include "amdahl/report_page.h"
#include "amdahl/sampling.h"
#include "amdahl/scaling.h"
#include "amdahl/sensor_comparison.h"
#include "amdahl/summary.h"
#include "amdahl/tensor.h"
#include "amdahl/trace.h"
#include "amdahl/units.h"

namespace amdahl {

/// Version of this build, "0.1.0".
AMDAHL_API std::string version();
/// Commit it was built from, or "unknown".
AMDAHL_API std::string build_commit();

/// One line of the plan that a study prints before it runs.
struct PlannedCell {
  int64_t global_batch = 0;
  int devices = 1;
  std::string strategy;
  int64_t memory_bytes_per_device = 0;  // modelled: parameters, optimizer state, activations, resident batches
  int runs = 0;
  std::string launch, math;
};

struct StudyPlan {
  ModelSpec model;
  std::string data_name;
  std::string device_kind;
  std::vector<DeviceSpec> devices;
  std::vector<PlannedCell> cells;
  std::string decision;         // of the selector in mode auto, with its reason, a line a batch size
  double expected_seconds = 0;  // from a probe of a few steps; 0 when not probed
  std::vector<std::string> notes;
  bool is_root = true;  // whether this process speaks
};

/// Where progress goes. Called on the root process only and, but for `cancelled`, from the thread that called the verb
/// or, while it waits for it, that of rank 0.
class AMDAHL_API Observer {
 public:
  virtual ~Observer() = default;
  /// The plan of a study, before its first run.
  virtual void planned(const StudyPlan& plan) { (void)plan; }
  /// A finished line about what is going on.
  virtual void note(const std::string& line) { (void)line; }
  /// Something the user should know although the job goes on.
  virtual void warning(const std::string& line) { (void)line; }
  /// `done` of `total` pieces of work; `what` names the present one.
  virtual void progress(int done, int total, const std::string& what) { (void)done, (void)total, (void)what; }
  /// Polled on every process, between steps and while ranks wait, by any of their threads, also at once; true ends the
  /// verb with Error{interrupted}, every finished record kept.
  virtual bool cancelled() { return false; }
};

/// A CSV file, arrays of the caller's, or the study's generator when neither is given.
struct DataConfig {
  std::string csv_path;
  std::vector<std::string> targets;
  std::vector<std::string> ignored;  // columns that are neither feature nor target
  std::string missing = "refuse";    // refuse, drop, mean
  char delimiter = 0;                // 0: find out
  bool regression = false;           // treat an integer-valued target as a number, not as classes
  /// In host memory, copied before the verb returns its first word to the observer: `features` [rows, width] f32;
  /// `labels` [rows, outputs] f32 to regress on, or [rows] i32 or i64 class numbers from 0 on.
  ConstTensor features, labels;
};

/// What is trained and how the optimizer steps.
struct TrainingConfig {
  std::string model = "medium";  // preset name or path of a JSON file
  DataConfig data;
  std::string strategy = "ddp";
  PlanOptions plan;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
};

struct StudyConfig {
  EngineConfig engine;
  TrainingConfig training;
  std::string
      mode;  // single, multi (compares both), auto (asks the selector); empty: multi with several devices, else single
  std::string variants = "auto";  // on one device: auto (its other launch and math modes and half batches too), none
  std::vector<int64_t> devices;  // counts; empty: 1, 2, 4, ... as far as there are GPUs, 1 and 2 virtual devices on CPU
  std::vector<int64_t> batch_sizes{16, 32, 64, 128};
  Scaling scaling = Scaling::strong;
  int runs = 50, warmup = 10, steps = 100;
  double rel_ci = 0;  // stop a batch size early once every interval is this tight; 0: never
  std::string output_dir;
  bool resume = false;
  std::string evidence;      // run folder that the selector may use in mode auto
  TraceConfig trace;         // of the last process
  FreshProcesses processes;  // that the runs are spread over
};

struct StudyOutcome {
  StudyPlan plan;
  StudySummary summary;
  std::string run_dir;
  std::string report_path;
  bool nothing_fitted = false;  // every cell ran out of memory
  bool is_root = true;          // other processes of a launched job get no summary
};
/// Table and verdict for a terminal.
AMDAHL_API std::string to_text(const StudyOutcome& outcome);
/// The summary, docs/schema/summary.schema.json.
AMDAHL_API std::string to_json(const StudyOutcome& outcome);

/// Plan only; probes a few steps for the expected time.
AMDAHL_API StudyPlan plan_study(const StudyConfig& config, Observer& observer);
/// Runs the study into `output_dir` (records.jsonl, summary.json, report.md).
AMDAHL_API StudyOutcome run_study(const StudyConfig& config, Observer& observer);

struct TrainConfig {
  EngineConfig engine;
  TrainingConfig training;
  int devices = 0;          // 0: one, or all ranks of a launched job
  int64_t batch_size = 32;  // global
  int epochs = 20;
  double validation_fraction = 0.2;
  int check_every = 1000;  // steps between comparisons of the devices' weights, bit by bit; 0: after the last alone
  std::string output_dir;
};

struct EpochResult {
  int epoch = 0;
  double train_loss = 0, validation_loss = 0;
  double validation_accuracy = -1;  // classification only, else negative
  double seconds = 0, samples_per_second = 0;
};

struct TrainOutcome {
  std::vector<EpochResult> epochs;
  std::string run_dir;
  std::string report_path;
  std::string device_kind;
  int devices = 1;
  ModelSpec model;
  std::vector<Record> records;  // one per epoch; on the root process
  bool is_root = true;
  std::vector<NamedArray> weights;  // after the last epoch, first layer first; on the root process
};
/// The last epoch's record, docs/schema/record.schema.json; empty on other processes than the root.
AMDAHL_API std::string to_json(const TrainOutcome& outcome);

/// Without an `output_dir`, nothing is written.
AMDAHL_API TrainOutcome run_train(const TrainConfig& config, Observer& observer);

struct AdviseConfig {
  std::string model;  // preset or file; empty when `num_parameters` is given
  int64_t num_parameters = 0;
  int64_t batch_size = 64;
  std::string policy = "measured";  // measured or study
  std::string evidence;             // run folder
};
AMDAHL_API Advice run_advise(const AdviseConfig& config);
AMDAHL_API std::string to_json(const Advice& advice);

struct OutlookConfig {
  std::string evidence;  // run folder of a study with cells on one GPU
  std::string link;      // a name of link_models(), or a machine file of `amdahl links`
  ScalingQuestion question;
};
struct OutlookOutcome {
  ScalingOutlook outlook;
};
AMDAHL_API std::string to_text(const OutlookOutcome& outcome);
/// docs/schema/outlook.schema.json.
AMDAHL_API std::string to_json(const OutlookOutcome& outcome);
/// What several GPUs would do with the work that one GPU was measured on, and what they did where that was measured
/// too. Error{usage} for records of CPU virtual devices, an unknown link, and work that was not measured on one GPU.
AMDAHL_API OutlookOutcome run_outlook(const OutlookConfig& config);

/// The runs that these names stand for: each as it is, and a folder that holds no run itself for the run folders in it,
/// by name. Error{usage} for a folder without any.
AMDAHL_API std::vector<std::string> find_runs(const std::vector<std::string>& names);

/// What a run folder shows, from its records alone. `write` rewrites the folder's report: summary.json and report.md of
/// a study, report.md of a training, report.txt and the drawing of links and collectives.
struct ReportOutcome {
  StudySummary summary;  // of a study
  std::string markdown;  // of a study or training
  std::string text;
  std::string json;
  std::string report_path;
  std::vector<std::string> notes;  // what could not be read
};
AMDAHL_API ReportOutcome run_report(const std::string& run_dir, bool write);
/// One page about all runs, from their files alone: the same files give the same bytes. Runs that cannot be read are
/// named in `problem` and `notes` as long as one can; else throws as run_report does.
AMDAHL_API PageOutcome run_page_report(const PageConfig& config);

struct CompareConfig {
  std::vector<std::string> runs;  // the baseline, then those it is compared with; "DIR@batch=64,devices=2" is a cell of
                                  // one, and "A1+A2" two runs of one side
  bool allow_unlike = false;      // compare although provenance differs
  std::vector<AxisPair> pairs;    // cells that differ in these axes alone are compared
  std::optional<double> fail_on_regression_percent;  // absent: never
  std::string html;                                  // page to write; empty: none
  std::string machine;  // file of `run_calibrate`: its spread of processes judges sides of one process; empty: none
};
struct CompareOutcome {
  RunsComparison comparison;
  bool regression = false;
};
AMDAHL_API std::string to_text(const CompareOutcome& outcome);
AMDAHL_API std::string to_markdown(const CompareOutcome& outcome);
/// docs/schema/comparison.schema.json.
AMDAHL_API std::string to_json(const CompareOutcome& outcome);
/// Error{usage} for less than two runs, runs of unlike kinds or provenance, and runs without a cell in common.
AMDAHL_API CompareOutcome run_compare(const CompareConfig& config);

struct CalibrateConfig {
  std::vector<std::string> runs;  // measured by five processes or more each
  std::string machine;            // file to write into; what else stands in it is kept
};
struct CalibrateOutcome {
  MachineSpec machine;
  std::vector<ProcessSpread> spreads;  // of these runs
  std::string machine_file;            // that was written
};
/// The spreads as a table.
AMDAHL_API std::string to_text(const CalibrateOutcome& outcome);
/// The machine, docs/schema/machine.schema.json.
AMDAHL_API std::string to_json(const CalibrateOutcome& outcome);
/// How far fresh processes of this machine lie apart, into its machine file: compare judges runs of one process by it.
/// Error{usage} for runs of fewer processes, of another host than the file's, and files that cannot be written.
AMDAHL_API CalibrateOutcome run_calibrate(const CalibrateConfig& config);

struct CostConfig {
  std::vector<std::string> runs;  // folders or JSON of studies and sensor benchmarks
  std::string prices;             // TOML file
  std::string html;               // page to write; empty: none
};
struct CostOutcome {
  CostReport report;
};
AMDAHL_API std::string to_text(const CostOutcome& outcome);
AMDAHL_API std::string to_markdown(const CostOutcome& outcome);
/// docs/schema/cost.schema.json.
AMDAHL_API std::string to_json(const CostOutcome& outcome);
/// What the measured work costs, and from which size on several devices pay. Error{usage} for a price file that cannot
/// be read, runs of other kinds, without a result, or on unlike kinds of device.
AMDAHL_API CostOutcome run_cost(const CostConfig& config);

/// Runs of `amdahl sensor bench`: folders, or the JSON it writes.
struct SensorCompareConfig {
  std::vector<std::string> single;  // on one device
  std::vector<std::string> multi;   // on several
  std::vector<std::string> hetero;  // on unlike devices, in mode hetero
  std::string prices;               // TOML file; empty: no cost
  bool allow_unlike = false;        // CPU virtual devices beside GPUs
};
struct SensorCompareOutcome {
  SensorComparison comparison;
};
AMDAHL_API std::string to_text(const SensorCompareOutcome& outcome);
AMDAHL_API std::string to_markdown(const SensorCompareOutcome& outcome);
/// docs/schema/sensor-comparison.schema.json.
AMDAHL_API std::string to_json(const SensorCompareOutcome& outcome);
/// What several devices buy for preprocessing, and for the money. Error{usage} for files that hold no sensor run, sides
/// without a result or a common workload, and device kinds that differ and may not.
AMDAHL_API SensorCompareOutcome run_sensor_compare(const SensorCompareConfig& config);

struct InfoOutcome {
  MachineSpec machine;
  std::vector<BackendStatus> backends;
};
AMDAHL_API std::string to_json(const InfoOutcome& outcome);
AMDAHL_API InfoOutcome run_info(const std::map<std::string, std::string>& environment);

/// What the devices of this machine are to each other; measures nothing.
AMDAHL_API TopoOutcome run_topo(const TopoConfig& config);
/// Writes a text file in one go: it is the old one or the new one, never a part. Symbolic links stay and are followed;
/// a character device, a pipe or /dev/stdout is written into. Error{usage} for a folder, a block device, a socket and
/// what cannot be made, Error{disk_full}.
AMDAHL_API void save_text(const std::string& path, const std::string& text);
/// Whether save_text could write there now; nothing is written.
AMDAHL_API Availability check_output(const std::string& path);
/// Whether `path` is a character device, a pipe or /dev/stdout, whose name says nothing of the format.
AMDAHL_API bool is_stream(const std::string& path);

/// The machine file of `amdahl links` or the JSON of `amdahl topo`. Error{usage} when it cannot be read or
/// describes another host, Error{version_refused}.
AMDAHL_API MachineSpec load_machine(const std::string& path);
/// Error{usage} when a file that describes no machine, or another host, stands at `path`: save_machine would replace
/// it.
AMDAHL_API void check_machine_file(const std::string& path);
/// Writes a machine file and returns what stands in it: process spreads and quarantined pairs of one that is there are
/// kept. Errors as save_text and check_machine_file, and Error{usage} when these devices lack a quarantined pair.
AMDAHL_API MachineSpec save_machine(const std::string& path, const MachineSpec& machine);
/// Variables that must be in the process's environment before a verb opens NCCL, so that no quarantined pair of
/// `machine` moves data directly; empty when no pair is.
AMDAHL_API std::map<std::string, std::string> safe_environment(const MachineSpec& machine);

/// The tests of `amdahl links`, in the order they run.
AMDAHL_API std::vector<LinkTestInfo> list_link_tests();
/// Bandwidth, latency and integrity of every way between the memories of this machine.
AMDAHL_API LinksOutcome run_links(const LinksConfig& config, Observer& observer);

/// Topology, health, links, integrity and collectives in at most two minutes, and what is wrong with them. With
/// `nccl_log`, NCCL_DEBUG=INFO and NCCL_DEBUG_FILE must be in the process's environment.
AMDAHL_API DoctorOutcome run_doctor(const DoctorConfig& config, Observer& observer);
/// The NCCL variables of a named profile (empty: none) with assignments ("NCCL_ALGO=Ring") over them, checked by
/// themselves and with what `environment` sets. They must be in the process environment before a verb uses NCCL, which
/// reads them once. Error{usage} for an unknown profile and for values that NCCL does not take, the environment's too.
AMDAHL_API std::map<std::string, std::string> nccl_settings(const std::string& profile,
                                                            const std::vector<std::string>& assignments,
                                                            const std::map<std::string, std::string>& environment);

/// Notes in the flight recorders of this process's ranks which signal it got, so that failure.json can say it.
/// Async-signal-safe.
AMDAHL_API void note_signal(int signal) noexcept;

/// Collectives over a sweep of sizes, every element verified, times by percentiles.
AMDAHL_API CollectivesOutcome run_collectives(const CollectivesConfig& config, Observer& observer);

/// Every transport over the same sweep, one after another. One that fails or is late keeps the sizes it came to and
/// gets a Record of kind "transport" with the reason; the others go on.
AMDAHL_API ArenaOutcome run_arena(const ArenaConfig& config, Observer& observer);

}  // namespace amdahl

// What follows from records: comparisons of runs, of sensor runs by speed and cost, the predicted speedup of several
// devices, advice. These verbs measure nothing. Plain data.
//
// Example:
//   amdahl::CompareConfig config;
//   config.runs = {"runs/baseline", "runs/candidate"};
//   for (const amdahl::CellComparison& cell : amdahl::run_compare(config).comparison.against[0].cells)
//     std::printf("%.3f %s\n", cell.test.ratio, std::string(to_string(cell.test.verdict)).c_str());
//
// Example:
//   const amdahl::LinkModel& link = amdahl::link_models().front();
//   std::printf("%s: 100 MB over 4 devices in %.0f us\n", link.name.c_str(), link.transfer_us(1e8, 4));
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// One cell that both runs measured. `test.ratio` > 1 means that A is faster than B, for times and rates alike.
struct CellComparison {
  std::string kind;
  std::map<std::string, AxisValue> axes;  // shared by both sides, without "run"
  SampleSummary a;                        // in `unit`
  SampleSummary b;
  PairTest test;
  std::string series;  // name of the compared series
  std::string unit;
  double drift = 0;                  // variance between studies / variance between processes, used by the test
  Origin origin = Origin::measured;  // emulated when either side is
  std::optional<double> model_flop_share_a{}, model_flop_share_b{};  // of step times: StudyCell::model_flop_share
};

/// Compares the baseline's cells whose `axis` is `a` with the candidate's cells whose `axis` is `b`.
struct AxisPair {
  std::string axis, a, b;
};

/// A is the baseline, B the candidate.
struct RunComparison {
  std::string name_a = "A";
  std::string name_b = "B";
  std::string device_kind;
  std::string series;  // of the first cell, for example "step_time"
  std::string unit;
  std::vector<CellComparison> cells;
  std::vector<std::string> only_a;  // cells with a result on one side only, as text
  std::vector<std::string> only_b;
  std::vector<std::string> notes;  // failed runs, differences that the caller allowed
  std::vector<AxisPair> proposed;  // pairs that would give unmatched cells a counterpart
};

/// One baseline against every other run. Holm's adjustment spans the cells of all comparisons.
struct RunsComparison {
  std::vector<RunComparison> against;  // at least one; name_a is the same in all
};

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

/// Hourly cost of the devices of a row and the work they do for it. Independent of speedups.
struct SensorCost {
  double hourly_price = 0;    // of all devices, in the table's currency
  bool owned = false;         // true: purchase and electricity divided by the hours of use, for lack of an hourly price
  double work_per_price = 0;  // items per unit of currency: throughput x 3600 / hourly_price
  std::optional<double> purchase_price;           // of all devices
  std::optional<double> purchase_per_throughput;  // currency per item/s
};

/// One configuration of one run.
struct SensorRow {
  enum class Role { single, multi, hetero };
  Role role = Role::single;
  std::string run;                        // file or folder
  std::map<std::string, AxisValue> axes;  // those of the record, without "run"
  std::vector<std::string> devices;       // device names; fewer than axis "devices" when the record has fewer
  std::string device_kind;                // "cpu-virtual" or "cuda"
  Origin origin = Origin::measured;
  int64_t n = 0;          // samples
  double throughput = 0;  // items/s: items of a call / its time, the median over samples
  std::optional<Interval> throughput_ci;
  double work_per_hour = 0;          // items: throughput x 3600
  std::optional<PairTest> speedup;   // over the workload's baseline; absent for the baseline
  std::optional<double> efficiency;  // several devices: throughput / sum of their throughputs alone
  std::optional<Interval> efficiency_ci;
  bool efficiency_by_sum = false;  // devices differ from the baseline's: the sum is of each one's best single result
  std::optional<Recommendation> recommendation;  // several devices only
  std::optional<SensorCost> cost;                // absent unless every device has a price
};

/// All rows with the same op, voxel_mode, dtype, workload, cache and launch.
struct WorkloadComparison {
  std::map<std::string, AxisValue> axes;
  std::string unit;                // of throughput: "batches/s", "points/s"
  std::vector<SensorRow> rows;     // the baseline first, which is the best single result
  size_t fastest = 0;              // row with the largest throughput
  std::optional<size_t> cheapest;  // row with the most work per price
  /// Row of several devices with the largest throughput, whose recommendation is that of the workload.
  size_t fastest_multi = 0;
};

struct SensorComparison {
  std::vector<WorkloadComparison> workloads;
  std::string prices;    // price file; empty: none
  std::string as_of;     // date of the prices
  std::string currency;  // of all prices
  std::vector<std::string> notes;
};

/// Runs of run_sensor_bench: run folders, or the outcome's JSON.
struct SensorCompareConfig {
  std::vector<std::string> single;  // on one device
  std::vector<std::string> multi;   // on several
  std::vector<std::string> hetero;  // on heterogeneous devices, in mode hetero
  std::string prices;               // TOML file; empty: no costs
  bool allow_unlike = false;        // compare CPU virtual devices with GPUs
  std::string html;                 // page to write; empty: none
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

/// Model of the link that transfers gradients between devices. The predicted time of a ring all-reduce of `bytes` over
/// n devices is
///     base_us + 2 (n - 1) hop_us  +  2 (n - 1) / n x bytes / rate(n)
/// with rate(n) = ring_efficiency x min(gbps, total_gbps / n). Thread-safe: const functions only.
struct AMDAHL_API LinkModel {
  std::string name;
  double gbps = 0;             // rate of a device per direction while it sends and receives, GB/s
  double total_gbps = 0;       // rate of all devices together where they share a bottleneck, GB/s; 0: no bottleneck
  double ring_efficiency = 1;  // share of the rate that a large all-reduce reaches
  double base_us = 0;          // latency of a small all-reduce, independent of the number of devices
  double hop_us = 0;           // latency of each of its 2 (n - 1) steps
  Origin rate_origin = Origin::modelled, latency_origin = Origin::modelled;
  std::string rate_source, latency_source;

  double ring_gbps(int64_t devices) const;                  // rate(n), GB/s
  double latency_us(int64_t devices) const;                 // base_us + 2 (n - 1) hop_us
  double transfer_us(double bytes, int64_t devices) const;  // the term with `bytes`
};

/// The built-in links: nvlink4, pcie5, host. Thread-safe.
AMDAHL_API const std::vector<LinkModel>& link_models();

/// One term of a predicted step.
struct PredictedTerm {
  std::string name;
  double us = 0;  // negative for hidden communication
  Origin origin = Origin::modelled;
  std::string source;
};

/// A measured cell on several devices, to check the prediction.
struct MeasuredStep {
  std::string strategy;
  double step_us = 0;
  double speedup = 1;
  int64_t n = 0;  // runs
};

/// Prediction for one global batch on one device count, with data parallelism.
struct ScalingPrediction {
  CellKey single;        // fastest measured configuration of the batch on one device
  double single_us = 0;  // T1(B), median of n_single runs
  int64_t n_single = 0;
  int64_t devices = 2;
  std::vector<PredictedTerm> terms;  // their sum is step_us
  double step_us = 0;
  double speedup = 1;
  std::optional<Interval> ci;  // of the measured terms; does not include the error of the model
  Recommendation recommendation = Recommendation::unclear;
  std::vector<MeasuredStep> measured;
};

struct ScalingOutlook {
  std::string device_kind;
  LinkModel link;
  bool overlap = false;
  std::vector<ScalingPrediction> predictions;
  std::vector<std::string> notes;
};

struct ScalingQuestion {
  std::vector<int64_t> devices{2, 4};
  std::string model{};       // model of the records; empty: every model
  int64_t global_batch = 0;  // 0: every batch that was measured on one device
  bool overlap = false;      // true: communication overlaps with backward, at most for its duration
};

struct OutlookConfig {
  std::string evidence;  // run folder of a study that measured one GPU
  std::string link;      // name in link_models(), or path of a machine file of run_links
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

/// `measured` uses records only; `study` applies the thresholds of the published study and names its contradictions.
enum class AdvicePolicy { measured, study };

struct AdviceRequest {
  std::string model{};  // as named by the user; may be empty
  int64_t num_parameters = 0;
  int64_t global_batch = 0;
  int64_t max_devices = 2;    // available devices
  std::string device_kind{};  // ignores evidence of other kinds; empty: any kind
};

struct Advice {
  std::string decision = "unknown";  // single, multi, evaluate, benchmark, unknown
  std::string reason;
  std::vector<std::string> evidence;          // one line per item, with unit, n and origin
  std::vector<std::string> modes_to_measure;  // "single", "multi"
  std::string command;  // command that measures the missing evidence; empty when nothing is missing
};

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

}  // namespace amdahl

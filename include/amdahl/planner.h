// The planner: the plans of a model that can be executed and their memory; the constants of a machine from which their
// steps are predicted; rankings, and how well they agree with measured steps. Plain data.
//
// Example:
//   amdahl::PlannerValidationConfig config;
//   config.iterations = "tests/data/planner/measured_a100.csv";
//   std::puts(to_text(amdahl::run_planner_validation(config, observer)).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Modelled bytes of the device that holds most.
struct PlanMemory {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // of all micro-batches in flight, with their gradients and shared scratch
  int64_t workspace = 0;    // of operations: GEMM workspaces of a GPU, copies with padded rows on a CPU
  int64_t total() const { return parameters + gradients + optimizer + activations + workspace; }
};

struct PlansConfig {
  std::string model = "medium";  // name of a preset, or path of a JSON file
  int devices = 8;
  int64_t batch_size = 64;         // global
  bool all_schedules = false;      // false: pipelines by 1f1b alone
  std::string optimizer = "adam";  // adam, adamw, sgd: arrays of state per parameter
  int64_t recompute = 0;           // a Recompute
};

struct ListedPlan {
  ParallelPlan plan;
  std::string text;  // format_plan
  PlanMemory memory;
  double bubble = -1;  // idle share of a pipeline's devices if all stages take equal times; negative: unknown
};

struct PlansOutcome {
  ModelSpec model;
  int devices = 0;
  int64_t global_batch = 0;
  std::vector<ListedPlan> plans;
};

/// Error{usage} for an unknown model or optimizer and for numbers out of range.
AMDAHL_API PlansOutcome run_plans(const PlansConfig& config);
/// A table for a terminal of `width` columns; 0: any.
AMDAHL_API std::string to_text(const PlansOutcome& outcome, int width = 0);
/// Schema docs/schema/plans.schema.json.
AMDAHL_API std::string to_json(const PlansOutcome& outcome);

/// Where a constant comes from. `fitted`: to measured steps; `assumed`: from a catalogue or a default.
enum class ConstantOrigin { measured, fitted, assumed };
/// "measured", "fitted", "assumed".
AMDAHL_API std::string_view to_string(ConstantOrigin origin);

struct CalibrationConstant {
  std::string name;  // a row of src/planner/rates.cpp: "gemm_tflops"
  double value = 0;
  std::string unit;
  ConstantOrigin origin = ConstantOrigin::assumed;
  std::string source;  // how it was measured, or where the assumption comes from
};

struct AMDAHL_API Calibration {
  std::string host;         // where it was measured; empty: not on a host of ours
  std::string device_kind;  // "cuda", "cpu-virtual"
  std::string device_name;
  std::string math;                 // "fp32", "tf32", "bf16"
  std::string software = "amdahl";  // program whose kernels were counted
  int64_t memory_bytes = 0;         // of a device; 0: unknown
  double seconds = 0;               // that measuring took
  std::vector<CalibrationConstant> constants;
  /// Relative standard deviations of the account's parts are multiplied by it, so that 95 % of held-out steps lie in
  /// the interval.
  double interval_factor = 1;

  const CalibrationConstant* find(std::string_view name) const;
  /// Whether a rate that every prediction rests on is assumed: predictions have a range, not a confidence interval.
  bool is_assumed() const;
  /// Whether no constant comes from a measurement.
  bool is_unmeasured() const;
};

/// Where the time of a step goes on the busiest device, in us. The parts sum to the step.
struct PlanAccount {
  double compute_us = 0;     // kernels of forward and backward
  double exposed_tp_us = 0;  // all-reduces of activations
  double exposed_pp_us = 0;  // transfers between stages that a device waits for
  double exposed_dp_us = 0;  // all-reduce of gradients that is not hidden
  double bubble_us = 0;      // waiting for other stages
  double optimizer_us = 0;
  double gaps_us = 0;       // waiting for the host's launches
  double slowed_us = 0;     // of compute: by communication behind it
  double hidden_dp_us = 0;  // communication behind backward; not part of the step
  double relative_sd = 0;   // of the sum
  double step_us() const {
    return compute_us + exposed_tp_us + exposed_pp_us + exposed_dp_us + bubble_us + optimizer_us + gaps_us;
  }
};

struct StepPrediction {
  ParallelPlan plan;
  double step_us = 0;
  Interval interval;  // 95 %
  PlanAccount account;
  PlanMemory memory;
  double rows_per_second = 0;
  bool fits = true;  // into the memory of a device; true when that is unknown
};

/// One measured iteration of a GPT model under tensor, data and pipeline parallelism.
struct MeasuredIteration {
  int64_t gpus = 1, global_batch = 1, micro_batch = 1, hidden = 0, heads = 1, layers = 1, sequence = 1024;
  int64_t tp = 1, dp = 1, pp = 1;
  int64_t node_gpus = 8;   // GPUs of a node
  int64_t recompute = -1;  // 1: backward computes all activations again; -1: not known
  double iteration_ms = 0;
  bool operator==(const MeasuredIteration&) const = default;
};

/// Errors |predicted / measured - 1| of one method of prediction.
struct ErrorSummary {
  std::string name;  // "tp1 dp2 pp1", "hidden 1024", "linear scaling"
  int64_t rows = 0;
  double mean = 0, p95 = 0, worst = 0;
  double bias = 0;  // mean of predicted / measured - 1
};

struct PlanValidation {
  int64_t rows = 0;
  int fitted_constants = 0;
  Calibration calibration;                  // fitted to all rows
  ErrorSummary in_sample, left_out_layout;  // of all rows
  std::string recompute;                    // what was assumed where the rows do not say it, and why; may be empty
  std::vector<ErrorSummary> layouts;        // each left out
  std::vector<ErrorSummary> sizes;      // leaving out each value of hidden, layers, micro-batch, global batch, tp, pp
  std::vector<ErrorSummary> baselines;  // without calibration, and linear scaling
  double rank_by_replica_batch = 0;     // Spearman's, mean over shapes of equal rows per replica: layouts of a shape
  double rank_by_global_batch = 0;      // of equal global batch
  double rank_worst = 0;                // of the shapes of both
  double coverage = 0;                  // part of left-out rows inside their 95 % interval
  double bound_to_simulation = 0;       // largest relative difference of the pipeline's bound and its simulation
  ErrorSummary also;                    // of further rows
  double also_coverage = 0;
};

struct CalibrationConfig {
  EngineConfig engine;  // backend, math and launch mode that are calibrated
  int devices = 0;      // at most; 0: all GPUs, or 4 virtual devices
  double seconds = 0;   // for its measurements; the first model is measured in any case; 0: 46 on CPU, 85 on GPUs
  std::string machine;  // machine file that receives the calibration; empty: none
  std::string html;     // page to write; empty: none
};

/// Predicted and measured times of a part of the step.
struct PlanPart {
  std::string name;
  double predicted_us = 0, measured_us = 0;
};

/// A measured step against its prediction.
struct ProbedStep {
  std::string model, plan;
  int64_t global_batch = 0;
  double measured_us = 0, predicted_us = 0;  // by a fit to the other models
  Interval interval;
  std::vector<PlanPart> parts;
};

struct CalibrationOutcome {
  Calibration calibration;
  std::vector<ProbedStep> steps;
  ErrorSummary in_sample, left_out_model;
  double coverage = 0;       // part of the left-out steps inside their interval
  std::string machine_file;  // that was written
};
/// Measures steps of small models, and the all-reduce where there are several GPUs, fits the planner's constants to
/// them, and stores these in the machine file. At most about one minute on CPU virtual devices and two on GPUs. Errors
/// as run_study.
AMDAHL_API CalibrationOutcome run_calibration(const CalibrationConfig& config, Observer& observer);
AMDAHL_API std::string to_text(const CalibrationOutcome& outcome, int width = 0);
/// JSON: the calibration as in docs/schema/machine.schema.json, and the steps.
AMDAHL_API std::string to_json(const CalibrationOutcome& outcome);

struct PlanConfig {
  std::string model;  // preset, or path of a JSON file
  int64_t global_batch = 0;
  std::string machine;  // machine file with a calibration; may be empty when `what_if` names a GPU
  std::string math;     // of the calibration: fp32, tf32, bf16; empty: the fastest that it has
  int devices = 0;      // at most; 0: as many as the machine or `what_if` has
  /// Assumptions: "gpus=8,link=pcie5,gpu=a100,memory-gb=40"; gpu may be a file, "gpu=new.toml". Several nodes, each
  /// with a network adapter for every GPU or with some: "nodes=8,network=net400", "gpus=64,nodes=8,network=4xnet200".
  std::string what_if;
  std::string explain;  // a plan whose terms are explained, "dp2.tp2,m4"; empty: none
  std::string prices;   // price file; empty: no costs
  int top = 10;         // plans in the ranking
  std::string html;     // page to write; empty: none
};

/// A plan of the ranking.
struct RankedPlan {
  StepPrediction step;
  std::string text;         // format_plan: "dp2.tp2.pp2,1f1b,m8"
  double hourly_price = 0;  // of its devices; 0: no prices
  double price_per_million_rows = 0;
  double joule_per_row = 0;  // by the table's power under load; 0: not given
};

/// The best plan on a number of devices against the best one on one.
struct DevicesAnswer {
  int devices = 1;
  std::string best;  // text of its plan; empty: none fits
  double step_us = 0;
  Interval interval;
  double speedup = 1;
  Interval speedup_interval;  // errors of terms that both plans have cancel
  std::string verdict;        // "pays", "marginal", "does not pay", "unclear"; of assumed rates "would pay", ...
  double price_ratio = 0;     // price per row relative to one device; 0: no prices
};

/// A term of an explained plan.
struct ExplainedTerm {
  std::string name, formula, inputs, source;
  double us = 0;  // of the step
};

struct PlanOutcome {
  ModelSpec model;
  int64_t global_batch = 0;
  Calibration calibration;  // with the assumptions of what_if
  int most_devices = 1;
  int64_t num_plans = 0, num_too_large = 0;
  double seconds = 0;  // that predicting took
  std::vector<RankedPlan> ranking;
  std::string why;  // the best against the runner-up
  std::vector<DevicesAnswer> by_devices;
  std::vector<ExplainedTerm> terms;  // of the explained plan; empty without
  RankedPlan explained;
  std::string currency;
  std::vector<std::string> notes;
};
/// Predicts every feasible plan of the model and ranks them. Measures nothing. Error{usage} for a machine file without
/// a calibration or with that of another machine, a model that fits nowhere, and assumptions that contradict each
/// other.
AMDAHL_API PlanOutcome run_plan(const PlanConfig& config);
/// `width`: columns of a terminal; 0: no limit.
AMDAHL_API std::string to_text(const PlanOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/plan.schema.json.
AMDAHL_API std::string to_json(const PlanOutcome& outcome);

struct ThresholdsConfig {
  std::string machine, math, what_if;  // as in PlanConfig
  std::string link;                    // kind of link between the assumed devices; empty: the calibration's
  std::vector<int> devices{2, 4, 8};
  std::vector<int64_t> batches{64, 128, 512, 2048, 8192};
};

/// The size from which on so many devices pay: the interval of the speedup by data parallelism begins at 1.10 or more,
/// the verdict of DevicesAnswer.
struct SizeThreshold {
  int64_t global_batch = 0;
  int devices = 2;
  int64_t parameters = 0;  // 0: no size up to 400 million parameters
};

struct ThresholdsOutcome {
  Calibration calibration;  // with the assumed link
  std::vector<SizeThreshold> thresholds;
};
/// From which size on several devices pay, from the calibration of one. Error{usage} as run_plan.
AMDAHL_API ThresholdsOutcome run_thresholds(const ThresholdsConfig& config);
/// The table, beside the thresholds of the published study.
AMDAHL_API std::string to_text(const ThresholdsOutcome& outcome, int width = 0);
/// {"version": 1, "thresholds": [...], "calibration": {...}}
AMDAHL_API std::string to_json(const ThresholdsOutcome& outcome);

struct VerifyConfig {
  PlanConfig plan;  // its machine file must be of this host, without assumptions; `global_batch` 0: chosen by the time
  EngineConfig engine;
  int best = 3, random = 2;         // plans that are run
  std::vector<ParallelPlan> plans;  // these instead; empty: the best and random ones
  double seconds = 120;             // for all measurements; steps, runs and at last the batch follow from it
  bool refit = true;                // corrects the machine file's calibration where that makes these plans' errors less
  std::string output_dir;           // run folder of the pairs; empty: none
};

struct VerifiedPlan {
  RankedPlan plan;
  bool random = false;
  double measured_us = 0;  // median of the runs
  double sd_us = 0;
  int64_t runs = 0;
  bool inside = false;                          // of the 95 % interval
  double memory_bytes = 0, modelled_bytes = 0;  // counted and modelled, of the fullest device with its batches
  std::vector<PlanPart> parts;
};

/// Error of a term over all plans, as part of the measured steps.
struct TermError {
  std::string name;
  double mean = 0;  // of |predicted - measured| / step
  double bias = 0;  // of (predicted - measured) / step
};

struct VerifyOutcome {
  PlanOutcome prediction;
  std::vector<VerifiedPlan> plans;
  std::vector<TermError> terms;
  double median_error = 0;    // of |predicted / measured - 1|
  double refitted_error = 0;  // the same after a refit; 0: no refit
  bool corrected = false;     // the machine file has the refitted constants
  double loss_of_choice = 0;  // measured time of the predicted best over the best measured, less 1
  double seconds = 0;
  Calibration refitted;  // empty without refit
  std::string run_dir;
  std::vector<std::string> notes;
};
/// Runs predicted plans on this machine and compares. Error{usage} when not even a step of one row each can be measured
/// in the time; else errors as run_plan and run_study.
AMDAHL_API VerifyOutcome run_plan_verification(const VerifyConfig& config, Observer& observer);
AMDAHL_API std::string to_text(const VerifyOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/plan-verification.schema.json.
AMDAHL_API std::string to_json(const VerifyOutcome& outcome);

struct PlannerValidationConfig {
  std::string iterations;  // CSV of measured iterations that constants are fitted to
  std::string also;        // CSV of further ones, which take part in no fit; empty: none
  std::string beside;      // CSV of the same iterations with times that another tool predicts; empty: none
  bool sizes = true;       // also leaves out sizes, not only layouts
};
/// Fits the planner's constants to measured iterations of GPT models and predicts them, each layout and size left out
/// in turn. Error{usage} for files that cannot be read and for `beside` of other iterations, Error{data_corrupt} that
/// names line and column for others.
AMDAHL_API PlanValidation run_planner_validation(const PlannerValidationConfig& config, Observer& observer);
AMDAHL_API std::string to_text(const PlanValidation& validation);
/// JSON, schema docs/schema/plan-validation.schema.json.
AMDAHL_API std::string to_json(const PlanValidation& validation);

}  // namespace amdahl

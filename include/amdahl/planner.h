// The planner: predicts the step of every plan on a calibrated machine, ranks them, and says how sure it is.
//
// Example:
//   amdahl::PlannerValidationConfig config;
//   config.iterations = "tests/data/planner/measured_a100.csv";
//   std::puts(to_text(amdahl::run_planner_validation(config, observer)).c_str());
#pragma once

#include <string>
#include <vector>

#include "amdahl/engine.h"
#include "amdahl/error.h"
#include "amdahl/model_spec.h"
#include "amdahl/plan_prediction.h"
#include "amdahl/plan_validation.h"

namespace amdahl {

class Observer;

struct CalibrationConfig {
  EngineConfig engine;  // backend, math and launch mode that are calibrated
  int devices = 0;      // at most; 0: all GPUs, or 4 virtual devices
  double seconds = 0;   // for its measurements; the first model is measured in any case; 0: 46 on CPU, 85 on GPUs
  std::string machine;  // machine file that receives the calibration; empty: none
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
  std::string what_if;  // assumptions, "gpus=8,link=pcie5,gpu=a100,memory-gb=40"; gpu may be a file, "gpu=new.toml"
  std::string explain;  // a plan whose terms are explained, "dp2.tp2,m4"; empty: none
  std::string prices;   // price file; empty: no costs
  int top = 10;         // plans in the ranking
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
  std::string verdict;        // "pays", "marginal", "does not pay", "unclear"
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
AMDAHL_API std::string to_text(const PlanOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/plan.schema.json.
AMDAHL_API std::string to_json(const PlanOutcome& outcome);

struct ThresholdsConfig {
  std::string machine, math, what_if;  // as in PlanConfig
  std::string link;                    // kind of link between the assumed devices; empty: the calibration's
  std::vector<int> devices{2, 4, 8};
  std::vector<int64_t> batches{64, 128, 512, 2048, 8192};
};

/// The size from which on so many devices pay: a speedup of 1.10 by data parallelism.
struct SizeThreshold {
  int64_t global_batch = 0;
  int devices = 2;
  int64_t parameters = 0;          // by the prediction; 0: no size up to 400 million parameters
  int64_t certain_parameters = 0;  // by the lower end of its interval
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

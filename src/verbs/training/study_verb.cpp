// The study: plan, measure, summarise, report.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "amdahl/report.h"
#include "amdahl/study.h"
#include "measure/study/cell_memory.h"
#include "measure/study/runner.h"
#include "parallel/data/strategy.h"
#include "plan/plan_rules.h"
#include "planner/advise.h"
#include "planner/predict.h"
#include "report/common/record_checks.h"
#include "setup/backends.h"
#include "setup/data_files.h"
#include "setup/failure_watch.h"
#include "setup/fresh_processes.h"
#include "setup/provenance.h"
#include "setup/training_setup.h"
#include "spec/run_folder.h"
#include "verbs/planner/calibrated.h"
#include "verbs/report/evidence.h"
#include "verbs/training/study_grid.h"
#include "verbs/training/study_identity.h"
#include "verbs/training/trace_files.h"

namespace amdahl {
namespace {

constexpr int64_t kStudyRows = 10'000;  // rows of the study's synthetic data set
constexpr int64_t kMaxDevices = 1 << 16, kMaxBatch = 1 << 30;

void check_counts(const StudyConfig& config) {
  const auto at_least = [](int64_t value, int64_t minimum, const char* option) {
    if (value < minimum)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("at least {}", minimum));
  };
  at_least(config.runs, 1, "`runs`");
  at_least(config.warmup, 1, "`warmup`");
  at_least(config.steps, 1, "`steps`");
  if (config.batch_sizes.empty()) throw Error(Cause::usage, "`batch_sizes` is empty", "a list like 16,32,64");
  const auto within = [&](int64_t value, int64_t maximum, const char* option) {
    at_least(value, 1, option);
    if (value > maximum)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value),
                  fmt::format("at most {}", with_thousands(maximum)));
  };
  for (int64_t devices : config.devices) within(devices, kMaxDevices, "`devices`");
  for (int64_t batch : config.batch_sizes) within(batch, kMaxBatch, "`batch_sizes`");
  if (!(config.rel_ci >= 0 && config.rel_ci < 1))
    throw Error(Cause::usage, fmt::format("`rel_ci` is {}", config.rel_ci), "`rel_ci=1%`, or 0 for never");
  check_fresh_processes(config.processes, config.engine.environment, "`processes`");
  if (config.processes.count > config.runs)
    throw Error(Cause::usage,
                fmt::format("`processes` is {} and `runs` is {}: each process needs a run", config.processes.count,
                            config.runs),
                "more runs, or fewer processes");
  if (config.processes.count > 1 && config.rel_ci > 0)
    throw Error(Cause::usage, "`rel_ci` with `processes`: an interval between processes needs all of them",
                "one of the two");
  if (config.mode != "auto" && !config.evidence.empty())
    throw Error(Cause::usage, "`evidence` names records for the selector, which only mode auto asks",
                "`mode=auto`, or no `evidence`");
  check_engine(config.engine);
  check_training(config.training);
}

// Before anything runs: throws for a cell whose strategy does not support this plan.
void check_feasible(const StudySettings& settings) {
  for (const auto& group : settings.groups) {
    for (const StudyCellSpec& cell : group) {
      const ParallelPlan plan = plan_of(settings, cell);
      if (cell.plan) require_plan_feasible(plan, settings.model);
      const Feasibility feasible = find_strategy(plan.strategy).feasible(plan);
      if (!feasible.ok)
        throw Error(Cause::usage, feasible.reason, "a larger batch, fewer devices, or another `strategy`");
    }
  }
}

struct Prepared {
  TrainingSetup setup;
  StudySettings settings;
  StudyPlan plan;
  std::unique_ptr<Fleet> fleet;
  std::map<std::string, std::string> identity;
};

StudySettings make_settings(const StudyConfig& config, const ModelSpec& model, const StudyGrid& grid) {
  StudySettings settings;
  settings.model = model;
  settings.data_name = data_name(config.training.data);
  settings.groups = grid.groups;
  settings.scaling = config.scaling;
  settings.math = config.engine.math;
  settings.make_ops = [deterministic = config.engine.deterministic](Device& device, MathMode math) {
    return make_model_ops(device, {math, deterministic});
  };
  settings.runs = config.runs;
  settings.warmup = config.warmup;
  settings.steps = config.steps;
  settings.rel_ci = config.rel_ci;
  settings.brief = config.brief;
  if (config.processes.is_child()) {
    settings.process = config.processes.slice.index;
    settings.first_run = config.processes.slice.first;
    settings.end_run = config.processes.slice.end;
  }
  settings.trainer = make_trainer_options(config.engine, config.training, model);
  set_total_steps(settings.trainer.hyper, settings.warmup + settings.steps);
  return settings;
}

int64_t largest_batch(const StudySettings& settings) {
  int64_t largest = 1;
  for (const auto& group : settings.groups)
    for (const StudyCellSpec& cell : group) largest = std::max(largest, cell.global_batch);
  return largest;
}

/// What must be equal on all ranks of a launched job, in addition to the study's identity.
JobFacts job_facts(const StudyConfig& config, const Prepared& prepared) {
  JobFacts facts = prepared.identity;
  facts["command"] = "study";
  facts["runs"] = std::to_string(config.runs);
  facts["timeout"] = config.engine.auto_timeout ? "auto" : "given";
  facts["rel_ci"] = fmt::format("{}", config.rel_ci);
  const std::optional<TraceRequest>& trace = prepared.settings.trace;
  facts["trace"] = trace ? fmt::format("{} steps {}:{}", run_key(trace->cell, 0), trace->first, trace->end) : "";
  return facts;
}

void take_devices_of_plans(StudyConfig& config) {
  if (config.plans.empty()) return;
  if (!config.devices.empty() || config.mode == "single" || config.mode == "auto")
    throw Error(Cause::usage, "each of `plans` names its devices", "`plans` without `devices` and `mode`");
  for (const ParallelPlan& plan : config.plans) config.devices.push_back(plan.num_devices());
  config.mode = "multi";
  if (std::all_of(config.devices.begin(), config.devices.end(), [](int64_t devices) { return devices == 1; }))
    config.mode = "single", config.variants = "none";
}

Prepared prepare(StudyConfig& config, Observer& observer) {
  check_counts(config);
  choose_backend(config.engine);
  // Replicas stay equal only if every device computes the same bits.
  const auto has_shards = [](const PlanOptions& plan) { return plan.virtual_shards > 0; };
  if (config.training.strategy == "replicated" || has_shards(config.training.plan) ||
      std::any_of(config.plans.begin(), config.plans.end(), has_shards))
    config.engine.deterministic = true;
  take_devices_of_plans(config);
  if (config.devices.empty()) config.devices = default_device_counts(config.engine);
  ModelSpec named = resolve_model(config.training.model);
  choose_mode(config);
  const StudyGrid grid = plan_grid(config, named);
  Prepared prepared;
  prepared.settings = make_settings(config, named, grid);
  check_feasible(prepared.settings);
  prepared.settings.trace = plan_trace(config, prepared.settings);
  const int64_t largest = largest_batch(prepared.settings);
  const int64_t rows = std::max(largest, std::min(kStudyRows, largest * prepared.settings.pool_batches));
  prepared.setup = load_training_setup(config.training, rows, config.engine.seed);
  prepared.settings.model = prepared.settings.trainer.model = prepared.setup.model;
  prepared.identity = study_identity(config, prepared.settings, prepared.setup.data);
  if (has_table_features(config.training.data)) {
    std::vector<int32_t> all(static_cast<size_t>(prepared.setup.data.num_rows));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    standardise(prepared.setup.data, all);
  }
  int max_devices = 1;
  for (const auto& group : prepared.settings.groups)
    for (const StudyCellSpec& cell : group) max_devices = std::max(max_devices, cell.devices);
  prepared.fleet = make_fleet(config.engine, max_devices, job_facts(config, prepared));
  prepared.fleet->end_runs_when([&observer] { return observer.cancelled(); });
  require_launch_mode(*prepared.fleet, config.engine.launch);
  if (prepared.fleet->is_root() && !config.processes.is_child()) tell_about_data(prepared.setup.data, observer);
  StudySettings& settings = prepared.settings;
  const auto modelled_bytes = [&](const StudyCellSpec& cell) {
    return cell_memory(settings, cell, backend_of(*prepared.fleet), prepared.setup.data.num_rows).total();
  };
  const std::vector<int64_t> too_large =
      drop_extras_that_do_not_fit(settings.groups, prepared.fleet->devices().front().memory_bytes, modelled_bytes);
  if (const std::string extras = extras_text(settings.groups); !extras.empty()) prepared.identity["variants"] = extras;
  prepared.settings.provenance = make_provenance(config.engine, *prepared.fleet);
  add_origin(prepared.identity, prepared.settings.provenance);

  StudyPlan& plan = prepared.plan;
  plan.model = prepared.setup.model;
  plan.data_name = prepared.settings.data_name;
  plan.device_kind = prepared.fleet->device_kind();
  plan.devices = prepared.fleet->devices();
  plan.decision = grid.decision;
  plan.is_root = prepared.fleet->is_root();
  for (const auto& group : prepared.settings.groups)
    for (const StudyCellSpec& cell : group)
      plan.cells.push_back({cell.global_batch, cell.devices, cell.strategy, modelled_bytes(cell),
                            runs_of(prepared.settings, cell), std::string(to_string(cell.launch)),
                            std::string(to_string(cell.math))});
  if (prepared.settings.trace) plan.notes.push_back(trace_note(*prepared.settings.trace));
  if (!grid.note.empty()) plan.notes.push_back(grid.note);
  if (!too_large.empty())
    plan.notes.push_back(
        fmt::format("batch {}: only as asked for, since all variants together would not fit into the "
                    "device's memory",
                    fmt::join(too_large, ", ")));
  if (plan.device_kind == "cpu-virtual")
    plan.notes.push_back("CPU virtual devices: threads standing in for GPUs; these numbers say nothing about a GPU");
  return prepared;
}

template <class T>
T axis_of(const Record& record, const char* axis) {
  const auto found = record.axes.find(axis);
  const T* value = found == record.axes.end() ? nullptr : std::get_if<T>(&found->second);
  if (value) return *value;
  throw damaged_record(record, fmt::format("has no usable axis '{}'", axis));
}

StudyCellSpec cell_spec_of(const Record& record) {
  StudyCellSpec cell;
  cell.global_batch = axis_of<int64_t>(record, "global_batch");
  cell.devices = static_cast<int>(axis_of<int64_t>(record, "devices"));
  cell.strategy = axis_of<std::string>(record, "strategy");
  cell.launch = axis_of<std::string>(record, "launch") == "graph" ? LaunchMode::graph : LaunchMode::eager;
  for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::bf16, MathMode::fp16})
    if (axis_of<std::string>(record, "math") == to_string(math)) cell.math = math;
  return cell;
}

std::string run_key_of(const Record& record) { return run_key(cell_spec_of(record), axis_of<int64_t>(record, "run")); }

EarlierRuns finished_runs(const std::vector<Record>& records) {
  EarlierRuns done;
  for (const Record& record : records) done.emplace(run_key_of(record), record.value("step_time").value_or(0));
  return done;
}

/// The remaining runs of every cell per process. The remainder of a process that ended early goes to a new process with
/// a new number, because its runs belong to another process.
std::vector<FreshProcesses::Slice> slices_to_do(const StudyConfig& config, const StudySettings& settings,
                                                const std::vector<Record>& earlier) {
  std::map<std::string, int64_t> done;
  int64_t next = config.processes.count;
  for (const Record& record : earlier) {
    const int64_t process = axis_of<int64_t>(record, kProcessAxis);
    done[run_key_of(record)] = process;
    next = std::max(next, process + 1);
  }
  std::vector<FreshProcesses::Slice> slices;
  const int count = config.processes.count;
  for (int k = 0; k < count; ++k) {
    FreshProcesses::Slice slice{k, k * config.runs / count, (k + 1) * config.runs / count, config.output_dir};
    size_t there = 0, wanted = 0;
    for (const auto& group : settings.groups)
      for (const StudyCellSpec& cell : group)
        for (int run = slice.first; run < slice.end; ++run) {
          if (!takes_part(cell, run)) continue;
          ++wanted;
          there += done.contains(run_key(cell, run));
        }
    if (there == wanted) continue;
    if (there > 0) slice.index = static_cast<int>(next++);
    slices.push_back(slice);
  }
  return slices;
}

/// The study's folder and its earlier contents.
struct OpenRun {
  std::optional<RunFolder> folder;  // set on the root only
  std::vector<Record> earlier;
};

/// Called before the plan is shown: throws if the folder cannot be written.
OpenRun open_run(const StudyConfig& config, const std::map<std::string, std::string>& identity) {
  if (config.trace.wanted) require_trace_place(config);
  OpenRun run;
  const RunHeader header{"study", identity};
  if (config.resume || config.processes.is_child()) {
    RunContents contents;
    run.folder = RunFolder::resume(config.output_dir, header, &contents);
    run.earlier = std::move(contents.records);
  } else {
    run.folder = RunFolder::create(config.output_dir, header);
  }
  return run;
}

/// Runs the study's processes; this process has created the folder and shown the plan.
void run_in_processes(const StudyConfig& config, Prepared prepared, OpenRun run, Observer& observer) {
  const std::vector<FreshProcesses::Slice> slices = slices_to_do(config, prepared.settings, run.earlier);
  prepared.fleet.reset();  // the processes use its devices from here on,
  run.folder.reset();      // and the folder
  try {
    run_fresh_processes(config.processes, config.engine.environment, slices, observer);
  } catch (const Error& error) {
    if (error.cause() != Cause::interrupted) throw;
    throw Error(error.cause(), error.what(), "`resume` to go on");
  }
}

StudyOutcome conclude_study(const StudyConfig& config, StudyOutcome outcome) {
  const ReportOutcome report = run_report(config.output_dir, true);
  outcome.summary = report.summary;
  outcome.report_path = report.report_path;
  const std::vector<StudyCell>& cells = report.summary.cells;
  if (report.summary.one_device)
    outcome.thresholds = thresholds_line(
        find_calibration(config.calibration, outcome.plan.device_kind, std::string(to_string(config.engine.math))),
        config.batch_sizes);
  outcome.nothing_fitted =
      std::all_of(cells.begin(), cells.end(), [](const StudyCell& cell) { return cell.step_time_us.n == 0; });
  return outcome;
}

/// Of warm-up and timed steps; 0 without a calibration of the machine.
double expected_seconds(const StudyConfig& config, const Prepared& prepared) {
  const std::optional<Calibration> calibration = find_calibration(config.calibration, prepared.plan.device_kind, "");
  if (!calibration) return 0;
  const StudySettings& settings = prepared.settings;
  double seconds = 0;
  for (const auto& group : settings.groups)
    for (const StudyCellSpec& cell : group)
      seconds += predict_step(settings.model, plan_of(settings, cell), *calibration).step_us * 1e-6 *
                 runs_of(settings, cell) * (settings.warmup + settings.steps);
  return seconds;
}

// Sends the other processes what the root found in the run folder.
void share(Fleet& fleet, EarlierRuns& done) {
  std::string keys;
  for (const auto& [key, step_time] : done) keys += key + '\n';
  keys = fleet.agree(keys);
  for (size_t begin = 0; begin < keys.size();) {
    const size_t end = keys.find('\n', begin);
    done.emplace(keys.substr(begin, end - begin), 0);
    begin = end + 1;
  }
}

}  // namespace

StudyPlan plan_study(const StudyConfig& given, Observer& observer) {
  StudyConfig config = given;
  Prepared prepared = prepare(config, observer);
  prepared.plan.expected_seconds = expected_seconds(config, prepared);
  return prepared.plan;
}

namespace {

StudyOutcome measure_study(const StudyConfig& given, Observer& observer, FailureWatch& watch) {
  StudyConfig config = given;  // a copy, to fill in device counts
  const FreshProcesses::Slice& slice = config.processes.slice;
  if (config.processes.is_child() && slice.end != config.runs) config.trace.wanted = false;
  Prepared prepared = prepare(config, observer);
  watch.met();
  Fleet& fleet = *prepared.fleet;
  StudyOutcome outcome;
  outcome.plan = prepared.plan;
  outcome.run_dir = config.output_dir;
  outcome.is_root = fleet.is_root();
  OpenRun run;
  if (fleet.is_root()) run = open_run(config, prepared.identity);
  watch.begin(fleet.record_flights(config.processes.is_parent() || !run.folder ? "" : config.output_dir));
  if (fleet.is_root() && !config.processes.is_child()) {
    observer.planned(prepared.plan);
    if (config.resume)
      observer.note(
          fmt::format("resuming {}: {} runs are already there", config.output_dir, finished_runs(run.earlier).size()));
  }
  if (config.processes.is_parent()) {
    run_in_processes(config, std::move(prepared), std::move(run), observer);
    end_run(config.output_dir);
    return conclude_study(config, std::move(outcome));
  }
  EarlierRuns done = finished_runs(run.earlier);
  if (fleet.is_root() && config.trace.wanted)
    prepared.settings.trace->sink = [&](StepTrace trace) { write_trace(std::move(trace), config, observer); };
  share(fleet, done);
  run_study_cells(
      fleet, prepared.setup.data, prepared.settings, done, [&](const Record& record) { run.folder->append(record); },
      observer);
  if (!fleet.is_root() || config.processes.is_child()) return outcome;
  run.folder->end();
  return conclude_study(config, std::move(outcome));
}

}  // namespace

StudyOutcome run_study(const StudyConfig& config, Observer& observer) {
  return FailureWatch::over([&](FailureWatch& watch) { return measure_study(config, observer, watch); },
                            config.engine.environment);
}

}  // namespace amdahl

// The study: plan, measure, summarise, report.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "amdahl/amdahl.h"
#include "lab/backends.h"
#include "lab/evidence.h"
#include "lab/provenance.h"
#include "lab/study_identity.h"
#include "lab/trace_files.h"
#include "lab/training_setup.h"
#include "measure/study_runner.h"
#include "planner/advise.h"
#include "report/study.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

constexpr int64_t kStudyRows = 10'000;  // of the study's synthetic data set
constexpr int64_t kMaxDevices = 1 << 16, kMaxBatch = 1 << 30;

void check_counts(const StudyConfig& config) {
  const auto at_least = [](int64_t value, int64_t minimum, const char* option) {
    if (value < minimum)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("at least {}", minimum));
  };
  at_least(config.runs, 1, "--runs");
  at_least(config.warmup, 1, "--warmup");
  at_least(config.steps, 1, "--steps");
  if (config.batch_sizes.empty()) throw Error(Cause::usage, "--batch-sizes is empty", "a list like 16,32,64");
  const auto within = [&](int64_t value, int64_t maximum, const char* option) {
    at_least(value, 1, option);
    if (value > maximum)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value),
                  fmt::format("at most {}", with_thousands(maximum)));
  };
  for (int64_t devices : config.devices) within(devices, kMaxDevices, "--devices");
  for (int64_t batch : config.batch_sizes) within(batch, kMaxBatch, "--batch-sizes");
  if (!(config.rel_ci >= 0 && config.rel_ci < 1))
    throw Error(Cause::usage, fmt::format("--rel-ci is {}", config.rel_ci), "a fraction like 0.01, or 0 for never");
  if (config.mode != "auto" && !config.evidence.empty())
    throw Error(Cause::usage, "--from names records for the selector, but the mode is " + config.mode,
                "--mode auto, or no --from");
  check_engine(config.engine);
  check_training(config.training);
}

// What is measured at each batch size.
struct Modes {
  std::set<int64_t> without_multi;  // batch sizes at which one device is all that is measured
  std::string decision;             // of the selector, a line a batch size
};

Modes choose_modes(const StudyConfig& config, const ModelSpec& model) {
  if (config.mode == "single") return {{config.batch_sizes.begin(), config.batch_sizes.end()}, {}};
  if (config.mode == "multi") return {};
  if (config.mode != "auto")
    throw Error(Cause::usage, fmt::format("unknown mode '{}'", config.mode),
                choices_hint(config.mode, {"single", "multi", "auto"}));
  AdviceRequest question;
  question.model = config.training.model;
  question.num_parameters = model.num_parameters();
  question.max_devices = *std::max_element(config.devices.begin(), config.devices.end());
  question.device_kind = choose_backend(config.engine).name == std::string_view("cuda") ? "cuda" : "cpu-virtual";
  const StudySummary evidence = config.evidence.empty() ? StudySummary{} : read_evidence(config.evidence);
  Modes modes;
  for (const int64_t batch : config.batch_sizes) {
    question.global_batch = config.scaling == Scaling::weak ? batch * question.max_devices : batch;
    const Advice advice = advise_measured(question, evidence);
    // Only a selector that is sure of one device saves a measurement: several are judged against one.
    const std::vector<std::string>& unsure = advice.modes_to_measure;
    const bool sure = advice.decision == "single" && std::find(unsure.begin(), unsure.end(), "multi") == unsure.end();
    if (sure) modes.without_multi.insert(batch);
    modes.decision += fmt::format("{}selector, batch {}: {} ({})", modes.decision.empty() ? "" : "\n",
                                  question.global_batch, advice.decision, advice.reason);
  }
  return modes;
}

std::vector<std::vector<StudyCellSpec>> make_groups(const StudyConfig& config, const Modes& modes) {
  std::vector<int64_t> devices = config.devices;
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  std::vector<std::vector<StudyCellSpec>> groups;
  std::set<int64_t> planned;
  for (int64_t batch : config.batch_sizes) {
    if (!planned.insert(batch).second) continue;  // named twice
    std::vector<StudyCellSpec> group;
    group.push_back({batch, 1, "single"});
    for (int64_t n : devices) {
      if (n == 1 || modes.without_multi.contains(batch)) continue;
      group.push_back(
          {config.scaling == Scaling::weak ? batch * n : batch, static_cast<int>(n), config.training.strategy});
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// Refuses before anything runs: a cell that its strategy cannot run on this plan.
void check_feasible(const StudySettings& settings) {
  for (const auto& group : settings.groups) {
    for (const StudyCellSpec& cell : group) {
      ParallelPlan plan = settings.trainer.plan;
      plan.num_devices = cell.devices;
      plan.global_batch = cell.global_batch;
      const Feasibility feasible = find_strategy(cell.strategy).feasible(plan);
      if (!feasible.ok)
        throw Error(Cause::usage, feasible.reason, "a larger batch, fewer devices, or another --strategy");
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

StudySettings make_settings(const StudyConfig& config, const ModelSpec& model, const Modes& modes) {
  StudySettings settings;
  settings.model = model;
  settings.data_name = config.training.data.csv_path.empty()
                           ? "synthetic"
                           : std::filesystem::path(config.training.data.csv_path).filename().string();
  settings.groups = make_groups(config, modes);
  settings.scaling = config.scaling;
  settings.math = config.engine.math;
  settings.runs = config.runs;
  settings.warmup = config.warmup;
  settings.steps = config.steps;
  settings.rel_ci = config.rel_ci;
  settings.trainer = make_trainer_options(config.engine, config.training, model);
  return settings;
}

int64_t largest_batch(const StudySettings& settings) {
  int64_t largest = 1;
  for (const auto& group : settings.groups)
    for (const StudyCellSpec& cell : group) largest = std::max(largest, cell.global_batch);
  return largest;
}

Prepared prepare(StudyConfig& config, Observer& observer) {
  check_counts(config);
  choose_backend(config.engine);
  // Replicas stay alike only when every device computes the same bits.
  if (config.training.strategy == "replicated") config.engine.deterministic = true;
  if (config.devices.empty()) config.devices = default_device_counts(config.engine);
  ModelSpec named = resolve_model(config.training.model);
  const Modes modes = choose_modes(config, named);
  Prepared prepared;
  prepared.settings = make_settings(config, named, modes);
  check_feasible(prepared.settings);
  prepared.settings.trace = plan_trace(config, prepared.settings);
  const int64_t largest = largest_batch(prepared.settings);
  const int64_t rows = std::max(largest, std::min(kStudyRows, largest * prepared.settings.pool_batches));
  prepared.setup = load_training_setup(config.training, rows, config.engine.seed);
  prepared.settings.model = prepared.settings.trainer.model = prepared.setup.model;
  prepared.identity = study_identity(config, prepared.settings, prepared.setup.data);
  if (!config.training.data.csv_path.empty()) {
    std::vector<int32_t> all(static_cast<size_t>(prepared.setup.data.num_rows));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    standardise(prepared.setup.data, all);
  }
  int max_devices = 1;
  for (const auto& group : prepared.settings.groups)
    for (const StudyCellSpec& cell : group) max_devices = std::max(max_devices, cell.devices);
  prepared.fleet = make_fleet(config.engine, max_devices);
  prepared.fleet->end_runs_when([&observer] { return observer.cancelled(); });
  require_launch_mode(*prepared.fleet, config.engine.launch);
  prepared.settings.provenance = make_provenance(config.engine, *prepared.fleet);
  prepared.identity["device_kind"] = prepared.fleet->device_kind();

  StudyPlan& plan = prepared.plan;
  plan.model = prepared.setup.model;
  plan.data_name = prepared.settings.data_name;
  plan.device_kind = prepared.fleet->device_kind();
  plan.devices = prepared.fleet->devices();
  plan.decision = modes.decision;
  plan.is_root = prepared.fleet->is_root();
  for (const auto& group : prepared.settings.groups)
    for (const StudyCellSpec& cell : group)
      plan.cells.push_back({cell.global_batch, cell.devices, cell.strategy,
                            modelled_memory_bytes(prepared.settings, cell, prepared.setup.data.num_rows)});
  if (prepared.settings.trace) plan.notes.push_back(trace_note(*prepared.settings.trace));
  if (max_devices == 1 && config.mode != "single")
    plan.notes.push_back("one device only: there is nothing to compare it with");
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

EarlierRuns finished_runs(const std::vector<Record>& records) {
  EarlierRuns done;
  for (const Record& record : records) {
    const std::string key = run_key(axis_of<int64_t>(record, "global_batch"), axis_of<int64_t>(record, "devices"),
                                    axis_of<std::string>(record, "strategy"), axis_of<int64_t>(record, "run"));
    done.emplace(key, record.value("step_time").value_or(0));
  }
  return done;
}

// Tells the other processes what the root found in the run folder.
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
  prepared.plan.expected_seconds = probe_study_seconds(*prepared.fleet, prepared.setup.data, prepared.settings);
  return prepared.plan;
}

StudyOutcome run_study(const StudyConfig& given, Observer& observer) {
  StudyConfig config = given;  // device counts are filled in
  Prepared prepared = prepare(config, observer);
  Fleet& fleet = *prepared.fleet;
  StudyOutcome outcome;
  outcome.plan = prepared.plan;
  outcome.run_dir = config.output_dir;
  outcome.is_root = fleet.is_root();
  if (fleet.is_root()) observer.planned(prepared.plan);

  std::optional<RunFolder> folder;
  EarlierRuns done;
  if (fleet.is_root()) {
    if (config.trace.wanted) {
      require_trace_place(config);
      prepared.settings.trace->sink = [&](StepTrace trace) { write_trace(std::move(trace), config, observer); };
    }
    const RunHeader header{"study", prepared.identity};
    if (config.resume) {
      RunContents earlier;
      folder = RunFolder::resume(config.output_dir, header, &earlier);
      done = finished_runs(earlier.records);
      observer.note(fmt::format("resuming {}: {} runs are already there", config.output_dir, done.size()));
    } else {
      folder = RunFolder::create(config.output_dir, header);
    }
  }
  share(fleet, done);
  run_study_cells(
      fleet, prepared.setup.data, prepared.settings, done, [&](const Record& record) { folder->append(record); },
      observer);
  if (!fleet.is_root()) return outcome;
  const ReportOutcome report = run_report(config.output_dir, true);
  outcome.summary = report.summary;
  outcome.report_path = report.report_path;
  outcome.text = report.text;
  outcome.json = report.json;
  const std::vector<StudyCell>& cells = report.summary.cells;
  outcome.nothing_fitted =
      std::all_of(cells.begin(), cells.end(), [](const StudyCell& cell) { return cell.step_time_us.n == 0; });
  return outcome;
}

}  // namespace amdahl

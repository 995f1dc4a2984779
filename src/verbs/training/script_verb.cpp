// Training scripts of the user on one and several devices, in turns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "amdahl/report.h"
#include "amdahl/study.h"
#include "base/child_process.h"
#include "device/device.h"
#include "files/whole_file.h"
#include "plan/cell_axes.h"
#include "setup/backends.h"
#include "setup/provenance.h"
#include "setup/rank_processes.h"
#include "setup/temporary_folder.h"
#include "spec/run_folder.h"
#include "verbs/training/script_records.h"

namespace amdahl {
namespace {

constexpr const char* kOwnError = "amdahl_lab: error: ";  // begins a line of the package
constexpr const char* kModule = "amdahl_lab.launch";
constexpr std::string_view kOwnVariables = "AMDAHL_LAB_";  // of the package, for its ranks

struct ScriptCell {
  int devices = 1;
  std::string wrap;
  int64_t asked_batch = 0;   // 0: the script's own
  int64_t global_batch = 0;  // as the discarded run said
  std::string lack;          // of memory; no run of it follows
  std::map<std::string, AxisValue> axes{};

  std::string name() const {
    return fmt::format("{}{} device{}{}", asked_batch > 0 ? fmt::format("batch {}, ", asked_batch) : "", devices,
                       devices == 1 ? "" : "s", wrap.empty() ? "" : ", " + wrap);
  }
};

void check(const ScriptStudyConfig& config) {
  if (config.script.empty() || (config.script.front() == "-m" && config.script.size() == 1))
    throw Error(Cause::usage, "no script is given", "amdahl run train.py, or amdahl run -m MODULE");
  if (config.script.front() != "-m" && !std::filesystem::is_regular_file(config.script.front()))
    throw Error(Cause::usage, fmt::format("there is no script {}", printable(config.script.front(), 80)),
                "the path of a Python file, or -m MODULE");
  if (config.runs < 1 || config.warmup < 1 || config.steps < 1 || config.account_steps < 0)
    throw Error(Cause::usage,
                fmt::format("`runs` is {}, `warmup` {}, `steps` {}, `account_steps` {}", config.runs, config.warmup,
                            config.steps, config.account_steps),
                "at least 1, and 0 for `account_steps`");
  if (!(config.timeout_seconds > 0))
    throw Error(Cause::usage, fmt::format("`timeout` is {} s", config.timeout_seconds), "a positive number");
  for (const std::string& wrap : config.wraps)
    if (wrap != "ddp" && wrap != "fsdp2")
      throw Error(Cause::usage, fmt::format("unknown `wrap` '{}'", printable(wrap, 40)),
                  choices_hint(wrap, {"ddp", "fsdp2"}));
}

std::string python_program(const ScriptStudyConfig& config) {
  const std::vector<std::string> names =
      config.python.empty() ? std::vector<std::string>{"python3", "python"} : std::vector<std::string>{config.python};
  for (const std::string& name : names)
    if (std::string file = program_file(name, config.environment); !file.empty()) return file;
  throw Error(Cause::environment_missing, fmt::format("{} is not in PATH", fmt::join(names, " or ")),
              "Python 3.9 or newer, or `python` with its path");
}

/// The first `count` of CUDA_VISIBLE_DEVICES, or of all GPUs where it is not set.
std::string first_gpus(const std::map<std::string, std::string>& environment, int count) {
  const auto given = environment.find("CUDA_VISIBLE_DEVICES");
  std::istringstream names(given == environment.end() ? "" : given->second);
  std::vector<std::string> first;
  for (std::string name; static_cast<int>(first.size()) < count && std::getline(names, name, ',');)
    first.push_back(name);
  for (int i = 0; given == environment.end() && i < count; ++i) first.push_back(std::to_string(i));
  return fmt::format("{}", fmt::join(first, ","));
}

/// What a failed group says, by the rank that ended first: others often fail because of it.
struct GroupFailure {
  size_t rank = 0;
  std::string said, remedy, everything;
  bool late = false, no_memory = false;
};

std::optional<GroupFailure> failure_of(const std::vector<ChildResult>& results) {
  std::optional<GroupFailure> failure;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const ChildResult& result = results[rank];
    if (result.end == ChildResult::End::exited && result.code == 0) continue;
    if (failure && results[failure->rank].wall_us <= result.wall_us) continue;
    failure.emplace();
    failure->rank = rank;
    failure->late = result.end == ChildResult::End::late;
    const std::string how =
        fmt::format("ended {} {}", result.end == ChildResult::End::signalled ? "by signal" : "with code", result.code);
    failure->said = last_line(result.err);
    if (failure->said.starts_with(kOwnError)) {
      failure->said = failure->said.substr(std::string_view(kOwnError).size());
      if (const size_t at = failure->said.find("; "); at != std::string::npos)
        failure->remedy = failure->said.substr(at + 2), failure->said.resize(at);
    } else {
      failure->said = fmt::format("{}: {}", how, failure->said);
    }
    failure->no_memory = result.err.find("out of memory") != std::string::npos ||
                         result.err.find("can't allocate memory") != std::string::npos;
    failure->everything = result.err;
  }
  return failure;
}

class ScriptStudy {
 public:
  ScriptStudy(const ScriptStudyConfig& config, Observer& observer)
      : config_(config), observer_(observer), python_(python_program(config)), scratch_(config.environment) {
    engine_.backend = config.backend, engine_.environment = config.environment;
    engine_.command_line = config.command_line;
    is_cuda_ = choose_backend(engine_, FleetNeeds::devices).name == "cuda";
    counts_ = config.devices.empty() ? default_device_counts(engine_) : config.devices;
    if (is_cuda_) specs_ = list_cuda_devices();
    most_ = static_cast<size_t>(*std::max_element(counts_.begin(), counts_.end()));
    if (is_cuda_ && most_ > specs_.size())
      throw Error(Cause::environment_missing,
                  fmt::format("{} devices are asked for, and {} GPU{} {} here", most_, specs_.size(),
                              specs_.size() == 1 ? "" : "s", specs_.size() == 1 ? "is" : "are"),
                  "fewer `devices`, or `backend=cpu`");
    if (is_cuda_) specs_.resize(most_);
    const std::vector<int64_t> own{0};
    const std::vector<std::string> unwrapped{""};
    for (const int64_t batch : config.batch_sizes.empty() ? own : config.batch_sizes)
      for (const int64_t count : counts_)
        for (const std::string& wrap : count == 1 || config.wraps.empty() ? unwrapped : config.wraps)
          cells_.push_back({static_cast<int>(count), wrap, batch, 0, "", {}});
    require_package();
    folder_.emplace(RunFolder::create(config.output_dir, {"study", identity()}));
  }

  void run() {
    total_ = static_cast<int>(std::ssize(cells_)) * (config_.runs + 1);
    std::map<std::string, AxisValue> known;
    for (ScriptCell& cell : cells_) {
      const std::vector<RankReport> ranks = run_once(cell, -1);
      if (ranks.empty()) continue;
      cell.global_batch = global_batch_of(ranks);
      require_asked(cell);
      cell.axes = known = axes_of_report(ranks.front());
      device_name_ = ranks.front().device_name;
      facts_ = ranks.front().facts;
    }
    const std::string scaling = scaling_of_cells();
    provenance_ = make_provenance(engine_, is_cuda_ ? "cuda" : "cpu-virtual", specs_);
    for (const char* fact : {"math", "launch", "deterministic", "cache", "onednn", "processes"})
      provenance_.facts.erase(fact);  // of amdahl's own engine
    for (const auto& [name, value] : facts_) provenance_.facts["script." + name] = value;
    if (!is_cuda_) provenance_.facts["device.0"] = device_name_;
    for (ScriptCell& cell : cells_) {
      if (cell.axes.empty()) cell.axes = known;
      finish_axes(cell, scaling);
      if (!cell.lack.empty()) append(cell, -1, {});
    }
    for (int run = 0; run < config_.runs; ++run)
      for (size_t k = 0; k < cells_.size(); ++k) {
        ScriptCell& cell = cells_[run % 2 == 0 ? k : cells_.size() - 1 - k];
        if (!cell.lack.empty()) continue;
        append(cell, run, run_once(cell, run));
      }
    folder_->end();
  }

 private:
  std::map<std::string, std::string> identity() const {
    return {{"script", fmt::format("{}", fmt::join(config_.script, " "))},
            {"steps", std::to_string(config_.steps)},
            {"warmup", std::to_string(config_.warmup)}};
  }

  /// What the ranks of the group inherit.
  std::map<std::string, std::string> rank_environment(int devices) const {
    std::map<std::string, std::string> variables = inherited_environment(config_.environment);
    if (!config_.package_dir.empty()) {
      std::string& path = variables["PYTHONPATH"];
      path = path.empty() ? config_.package_dir : config_.package_dir + ":" + path;
    }
    for (const auto& [name, value] : config_.environment)
      if (name.starts_with(kOwnVariables)) variables[name] = value;
    variables["PYTHONUNBUFFERED"] = "1";
    variables["GROUP_RANK"] = "0";
    variables["CUDA_VISIBLE_DEVICES"] = is_cuda_ ? first_gpus(config_.environment, devices) : "";
    // Processors are divided by the largest group, so that a process computes as fast in each cell.
    if (!variables.contains("OMP_NUM_THREADS"))
      variables["OMP_NUM_THREADS"] = std::to_string(std::max(1, num_processors() / static_cast<int>(most_)));
    return variables;
  }

  static int num_processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

  void require_package() {
    const ChildCommand probe{python_, {"-c", "import amdahl_lab.launch"}, rank_environment(1), false};
    const ChildResult result =
        run_children({probe}, Deadline::after_seconds(60), [&] { return observer_.cancelled(); })[0];
    if (observer_.cancelled()) throw Error(Cause::interrupted, "stopped by the user before the first run");
    if (result.end == ChildResult::End::exited && result.code == 0) return;
    throw Error(Cause::environment_missing,
                fmt::format("{} cannot import amdahl_lab: {}", python_, last_line(result.err)),
                "its wheel (make wheel) there, or `python` with another interpreter");
  }

  /// One group of fresh processes. Empty: it has not enough memory, and the cell says so. `run` -1: not counted.
  std::vector<RankReport> run_once(ScriptCell& cell, int run) {
    const std::string what = run < 0 ? fmt::format("first run on {}, not counted", cell.name())
                                     : fmt::format("run {} on {}", run + 1, cell.name());
    observer_.progress(done_++, total_, what);
    const RankJob job{config_.steps, config_.warmup,   config_.account_steps,
                      cell.wrap,     cell.asked_batch, (scratch_.path() / fmt::format("{}", done_)).string()};
    const std::string job_file = job.result + ".job";
    write_atomic(job_file, rank_job_to_json(job));
    ChildCommand command{python_, {"-m", kModule}, rank_environment(cell.devices), false};
    command.arguments.insert(command.arguments.end(), config_.script.begin(), config_.script.end());
    command.environment["AMDAHL_LAB_JOB"] = job_file;
    const std::vector<ChildResult> results =
        run_children(as_ranks(command, cell.devices), Deadline::after_seconds(config_.timeout_seconds),
                     [&] { return observer_.cancelled(); });
    if (observer_.cancelled())
      throw Error(Cause::interrupted, fmt::format("stopped by the user in {}", what),
                  fmt::format("amdahl report {} for the runs before it", folder_->path().string()));
    if (const std::optional<GroupFailure> failure = failure_of(results)) return failed(cell, run, *failure, what);
    std::vector<RankReport> ranks;
    for (int rank = 0; rank < cell.devices; ++rank)
      ranks.push_back(read_report(job, rank, results[static_cast<size_t>(rank)], what));
    tell(ranks);
    return ranks;
  }

  std::vector<RankReport> failed(ScriptCell& cell, int run, const GroupFailure& failure, const std::string& what) {
    if (failure.no_memory && run < 0 && cells_.size() > 1) {
      cell.lack = "out of memory: " + failure.said;
      observer_.warning(fmt::format("{}: {}", cell.name(), cell.lack));
      return {};
    }
    folder_->write_text("failure.txt", failure.everything);
    const std::string rank = cell.devices == 1 ? "" : fmt::format(", rank {}", failure.rank);
    if (failure.late)
      throw Error(Cause::rank_hung, fmt::format("{}{}: not done within {:g} s", what, rank, config_.timeout_seconds),
                  "a longer `timeout`, or fewer `steps`");
    throw Error(failure.no_memory ? Cause::out_of_memory : Cause::check_failed,
                fmt::format("{}{}: {}", what, rank, failure.said),
                failure.remedy.empty()
                    ? fmt::format("{} for all that it said", (folder_->path() / "failure.txt").string())
                    : failure.remedy);
  }

  RankReport read_report(const RankJob& job, int rank, const ChildResult& result, const std::string& what) const {
    const std::string file = fmt::format("{}.{}.json", job.result, rank);
    if (!std::filesystem::exists(file))
      throw Error(Cause::check_failed,
                  fmt::format("{}: rank {} ended without a result: {}", what, rank, last_line(result.err)),
                  "a script that does not end before its steps");
    return rank_report_from_json(read_file(file, Cause::data_corrupt), file);
  }

  void tell(const std::vector<RankReport>& ranks) {
    for (const RankReport& rank : ranks)
      for (const std::string& note : rank.notes)
        if (told_.insert(note).second) observer_.warning(note);
  }

  static void require_asked(const ScriptCell& cell) {
    if (cell.asked_batch == 0 || cell.global_batch == 0 || cell.asked_batch == cell.global_batch) return;
    throw Error(Cause::usage, fmt::format("the script has {} rows in a step of {}", cell.global_batch, cell.name()),
                "a script that takes amdahl_lab.batch_size(), or no `batch_sizes`");
  }

  std::string scaling_of_cells() const {
    std::set<int64_t> global, per_device;
    std::vector<std::string> each;
    for (const ScriptCell& cell : cells_) {
      if (!cell.lack.empty()) continue;
      if (cell.global_batch == 0)
        throw Error(Cause::usage, "the script does not say how many rows its steps have",
                    "`with amdahl_lab.step(samples=N):` with the rows of the rank");
      global.insert(cell.global_batch);
      per_device.insert(cell.global_batch % cell.devices == 0 ? cell.global_batch / cell.devices : -cell.devices);
      each.push_back(fmt::format("{} on {}", cell.global_batch, cell.name()));
    }
    if (each.empty()) throw Error(Cause::out_of_memory, "no cell fitted into memory", "a smaller batch");
    if (global.size() == 1 || !config_.batch_sizes.empty()) return "strong";
    if (per_device.size() == 1) return "weak";
    throw Error(Cause::usage,
                fmt::format("global batches of {}: they differ, and per device too", fmt::join(each, ", ")),
                "a script with one global batch, or one batch per device");
  }

  /// Of a cell whose processes ended too early to say it: as that of the others.
  int64_t likely_batch(const ScriptCell& cell, const std::string& scaling) const {
    if (cell.global_batch > 0) return cell.global_batch;
    if (cell.asked_batch > 0) return cell.asked_batch;
    for (const ScriptCell& other : cells_)
      if (other.global_batch > 0)
        return scaling == "strong" ? other.global_batch : other.global_batch / other.devices * cell.devices;
    return 1;
  }

  void finish_axes(ScriptCell& cell, const std::string& scaling) const {
    const std::string several = cell.wrap.empty() ? "script" : cell.wrap;
    cell.axes.insert({{"global_batch", likely_batch(cell, scaling)},
                      {"devices", static_cast<int64_t>(cell.devices)},
                      {"strategy", cell.devices == 1 ? "single" : several},
                      {"backend", std::string(is_cuda_ ? "cuda" : "cpu")},
                      {"scaling", scaling},
                      {"data", std::string("script")},
                      {"steps", static_cast<int64_t>(config_.steps)},
                      {"warmup", static_cast<int64_t>(config_.warmup)}});
    add_plan_axes(PlanOptions{}, cell.axes);
  }

  void append(const ScriptCell& cell, int run, const std::vector<RankReport>& ranks) {
    Record record;
    record.kind = "study-run", record.axes = cell.axes, record.provenance = provenance_;
    record.axes["run"] = static_cast<int64_t>(std::max(run, 0));
    record.axes[kProcessAxis] = static_cast<int64_t>(std::max(run, 0));
    if (ranks.empty())
      record.status = {Status::Kind::failed, cell.lack};
    else
      record.series = series_of_reports(ranks);
    folder_->append(record);
  }

  const ScriptStudyConfig& config_;
  Observer& observer_;
  std::string python_;
  TemporaryFolder scratch_;
  EngineConfig engine_;
  bool is_cuda_ = false;
  std::vector<int64_t> counts_;
  size_t most_ = 1;
  std::vector<DeviceSpec> specs_;
  std::vector<ScriptCell> cells_;
  std::optional<RunFolder> folder_;
  std::string device_name_;
  std::map<std::string, std::string> facts_;  // of the script's runs
  Provenance provenance_;
  std::set<std::string> told_;
  int done_ = 0, total_ = 0;
};

}  // namespace

StudyOutcome run_script_study(const ScriptStudyConfig& config, Observer& observer) {
  check(config);
  ScriptStudy(config, observer).run();
  StudyOutcome outcome;
  outcome.run_dir = config.output_dir;
  const ReportOutcome report = run_report(config.output_dir, true);
  outcome.summary = report.summary;
  outcome.report_path = report.report_path;
  return outcome;
}

}  // namespace amdahl

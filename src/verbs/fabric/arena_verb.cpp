// The arena: one sweep over every transport, each in separate processes, one transport after another.
//
// NCCL reads its settings once per process, and a transport that hangs or crashes loses only its own rows. NCCL's
// choices come from a separate run, because logging them takes time in every call. Transports between GPUs and in host
// memory never share a table: their data are elsewhere, so neither can replace the other.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "amdahl/fabric.h"
#include "comm/nccl_tuning.h"
#include "comm/world.h"
#include "device/device.h"
#include "setup/failure_watch.h"
#include "setup/provenance.h"
#include "setup/rank_processes.h"
#include "setup/temporary_folder.h"
#include "spec/run_folder.h"
#include "verbs/fabric/collectives_setup.h"
#include "verbs/fabric/transports.h"

namespace amdahl {
namespace {

struct Contender {
  const TransportRow* row;
  Availability availability;
};

std::vector<Contender> contenders_of(const ArenaConfig& config) {
  std::vector<Contender> contenders;
  for (const TransportRow* row : find_transports(config.transports, config.sweep.backend)) {
    contenders.push_back({row, row->available()});
    const Availability& availability = contenders.back().availability;
    const bool named =
        std::find(config.transports.begin(), config.transports.end(), row->name) != config.transports.end();
    if (named && !availability.ok)
      throw Error(Cause::environment_missing, fmt::format("transport {}: {}", row->name, availability.reason),
                  availability.remedy);
  }
  return contenders;
}

bool any_here(const std::vector<Contender>& contenders, std::string_view backend) {
  return std::any_of(contenders.begin(), contenders.end(), [&](const Contender& contender) {
    return contender.availability.ok && contender.row->backend == backend;
  });
}

/// All transports use the same number of ranks, so that they are comparable.
int ranks_of(const CollectivesConfig& config, const std::vector<Contender>& contenders) {
  if (config.devices > 0) return config.devices;
  if (!config.gpus.empty()) return static_cast<int>(config.gpus.size());
  return any_here(contenders, "cuda") ? static_cast<int>(list_cuda_devices().size()) : 2;
}

void check_arena(const ArenaConfig& config) {
  check_collectives(config.sweep);
  if (config.program.empty() || !config.arguments)
    throw Error(Cause::usage, "the arena has no program to run", "the path of amdahl");
  if (config.transports.empty()) throw Error(Cause::usage, "no transport was named", "`transports=all`");
  if (!(config.transport_seconds > 0 && config.transport_seconds <= 1e6))
    throw Error(Cause::usage, fmt::format("`transport_seconds` is {} s", config.transport_seconds),
                "more than 0 seconds, for example 300");
  if (detect_launch(config.sweep.environment).multi_process())
    throw Error(Cause::usage, "the arena starts processes of its own and was itself started as one of several",
                "`collectives arena` without mpirun, torchrun or srun");
}

class Arena {
 public:
  Arena(const ArenaConfig& config, Observer& observer, int ranks)
      : config_(config), observer_(observer), ranks_(ranks), folder_(config.sweep.environment) {}

  /// The results of one transport: records of the completed sizes, and one record of kind "transport" if it ended
  /// early. Error{interrupted} when the user stops it.
  std::vector<Record> run(const TransportRow& row) {
    const std::string run_dir = (folder_.path() / std::to_string(++num_runs_)).string();
    const std::vector<ChildResult> results = start(row, {ranks_, run_dir});
    std::vector<Record> records = read(row, run_dir);
    const bool ended_well = std::all_of(results.begin(), results.end(), [](const ChildResult& result) {
      return result.end == ChildResult::End::exited && result.code == 0;
    });
    const bool said = std::any_of(records.begin(), records.end(),
                                  [](const Record& record) { return record.status.kind == Status::Kind::failed; });
    if (row.chooses && !records.empty()) add_choices(row, records);
    if (records.empty() || (!ended_well && !said))
      records.push_back(absent(row, {Status::Kind::failed, reason_of_failure(results, config_.transport_seconds)}));
    return records;
  }

  Record absent(const TransportRow& row, const Status& status) const {
    Record record;
    record.kind = "transport";
    record.axes = {{"transport", std::string(row.name)}, {"devices", static_cast<int64_t>(ranks_)}};
    record.status = status;
    record.provenance = provenance(row);
    return record;
  }

 private:
  std::vector<ChildResult> start(const TransportRow& row, const TransportRun& run) {
    std::vector<ChildResult> results =
        run_children(transport_commands(config_, row, run), Deadline::after_seconds(config_.transport_seconds),
                     [this] { return observer_.cancelled(); });
    if (observer_.cancelled())
      throw Error(Cause::interrupted, "stopped by the user; the transports measured so far are kept",
                  "fewer transports in `transports` for a shorter run");
    return results;
  }

  /// Reads the records also of a transport that failed: the sizes completed before are valid.
  static std::vector<Record> read(const TransportRow& row, const std::string& run_dir) {
    if (!std::filesystem::exists(std::filesystem::path(run_dir) / kRecordsFile)) return {};
    std::vector<Record> records = read_records(run_dir);
    for (Record& record : records) record.axes["transport"] = std::string(row.name);
    return records;
  }

  /// NCCL's log slows every call, so the choices are queried in a separate, untimed run.
  void add_choices(const TransportRow& row, std::vector<Record>& records) {
    const std::vector<ChildResult> results = start(row, {ranks_, ""});
    const std::vector<NcclChoice> choices = parse_nccl_choices(results.front().out);
    if (choices.empty()) observer_.warning(fmt::format("transport {}: NCCL did not say what it chose", row.name));
    for (Record& record : records) {
      const auto bytes = record.axes.find("bytes");
      const auto collective = record.axes.find("collective");
      if (bytes == record.axes.end() || collective == record.axes.end()) continue;
      const std::string choice = describe_nccl_choice(
          choices, {std::get<std::string>(collective->second), std::get<int64_t>(bytes->second), ranks_});
      if (!choice.empty()) record.axes["nccl_chose"] = choice;
    }
  }

  Provenance provenance(const TransportRow& row) const {
    Provenance provenance;
    provenance.tool_version = version();
    provenance.commit = build_commit();
    provenance.command_line = config_.sweep.command_line;
    provenance.start_time = utc_now();
    provenance.device_kind = row.backend == "cuda" ? "cuda" : "cpu-virtual";
    provenance.seed = config_.sweep.seed;
    return provenance;
  }

  const ArenaConfig& config_;
  Observer& observer_;
  int ranks_;
  TemporaryFolder folder_;
  int num_runs_ = 0;
};

std::map<std::string, NcclSettings> settings_by_transport(const ArenaConfig& config) {
  std::map<std::string, NcclSettings> settings;
  for (const TransportRow& row : transport_table()) {
    if (!row.is_environment()) continue;
    NcclSettings& own = settings[std::string(row.name)] = row.settings;
    own.insert(config.sweep.nccl_settings.begin(), config.sweep.nccl_settings.end());
  }
  return settings;
}

std::map<std::string, std::string> identity(const ArenaConfig& config, int ranks) {
  std::map<std::string, std::string> identity = collectives_identity(config.sweep, ranks);
  identity["transports"] = fmt::format("{}", fmt::join(config.transports, ","));
  return identity;
}

ArenaOutcome compare_transports(const ArenaConfig& config, Observer& observer, FailureWatch& watch) {
  check_arena(config);
  const std::vector<Contender> contenders = contenders_of(config);
  const int ranks = ranks_of(config.sweep, contenders);
  sweeps_of(config.sweep, ranks);  // rejects wrong names once, instead of in every transport
  if (!config.sweep.nccl_settings.empty() && !any_here(contenders, "cuda"))
    throw Error(Cause::usage, "`assignments` are about NCCL, and no transport here uses it", "leave them out");
  ArenaOutcome outcome;
  if (ranks < 2) {
    outcome.waived = "1 rank: a collective needs at least 2 devices";
    return outcome;
  }
  outcome.run_dir = config.sweep.output_dir;
  std::optional<RunFolder> folder;
  if (!outcome.run_dir.empty()) folder = RunFolder::create(outcome.run_dir, {"arena", identity(config, ranks)});
  watch.begin(outcome.run_dir);
  Arena arena(config, observer, ranks);
  bool measured = false;
  for (size_t i = 0; i < contenders.size(); ++i) {
    const auto& [row, availability] = contenders[i];
    observer.progress(static_cast<int>(i), static_cast<int>(contenders.size()), std::string(row->name));
    const std::vector<Record> records =
        availability.ok ? arena.run(*row)
                        : std::vector<Record>{arena.absent(*row, {Status::Kind::waived, availability.reason})};
    for (const Record& record : records) {
      if (folder) folder->append(record);
      measured = measured || record.status.kind == Status::Kind::ok;
      outcome.failed = outcome.failed || record.status.kind == Status::Kind::failed;
      outcome.records.push_back(record);
    }
  }
  if (folder) folder->end();
  outcome.failed = outcome.failed || !measured;
  outcome.settings = settings_by_transport(config);
  return outcome;
}

}  // namespace

ArenaOutcome run_arena(const ArenaConfig& config, Observer& observer) {
  return FailureWatch::over([&](FailureWatch& watch) { return compare_transports(config, observer, watch); });
}

}  // namespace amdahl

// One-sided communication: measurements over ranks of each kind, records, choices.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "amdahl/fabric.h"
#include "comm/world.h"
#include "measure/onesided/bench.h"
#include "measure/onesided/patterns.h"
#include "setup/backends.h"
#include "setup/fabric_engine.h"
#include "setup/failure_watch.h"
#include "setup/provenance.h"
#include "setup/rank_processes.h"
#include "setup/temporary_folder.h"
#include "setup/training_setup.h"
#include "spec/run_folder.h"
#include "symmetric/team_view.h"
#include "verbs/fabric/fabric_reports.h"
#include "verbs/fabric/onesided_peers.h"
#include "verbs/overall_progress.h"

namespace amdahl {
namespace {

constexpr const char* kThreads = "threads";
constexpr const char* kProcesses = "processes";

using Sink = std::function<void(const Record&)>;

void check_onesided(const OneSidedConfig& config) {
  const auto within = [](int64_t value, int64_t low, int64_t high, const char* option) {
    if (value < low || value > high)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("{} to {}", low, high));
  };
  within(config.devices, 2, kMaxTeamRanks, "`devices`");
  if (config.partitions != 0) within(config.partitions, 2, 8, "`partitions`");
  within(config.min_bytes, 1, int64_t{1} << 30, "`min_bytes`");
  within(config.max_bytes, 1, int64_t{1} << 30, "`max_bytes`");
  within(config.samples, 1, 100'000, "`samples`");
  if (config.min_bytes > config.max_bytes)
    throw Error(Cause::usage, fmt::format("`min_bytes` {} is above `max_bytes` {}", config.min_bytes, config.max_bytes),
                "the smaller size first");
  if (!(config.least_sample_us > 0 && config.least_sample_us <= 1e6))
    throw Error(Cause::usage, fmt::format("`least_sample_us` is {} us", config.least_sample_us), "up to 1e6");
  if (config.ranks.empty()) throw Error(Cause::usage, "no kind of ranks was named", "`ranks=threads,processes`");
  for (const std::string& ranks : config.ranks)
    if (ranks != kThreads && ranks != kProcesses)
      throw Error(Cause::usage, fmt::format("unknown ranks '{}'", ranks), choices_hint(ranks, {kThreads, kProcesses}));
  if (find_one_sided_operations(config.operations).empty())
    throw Error(Cause::usage, "no operation was named", "`operations=all`");
  if (config.threads.empty() || config.blocks.empty())
    throw Error(Cause::usage, "a kernel without threads or blocks", "`threads=256` and `blocks=1`");
  for (const int threads : config.threads) within(threads, 32, 1024, "`threads`");
  for (const int blocks : config.blocks) within(blocks, 1, 64, "`blocks`");
  if (config.patterns + config.gemm + config.norm + config.locality > 1)
    throw Error(Cause::usage, "more than one of `patterns`, `gemm`, `norm` and `locality`", "one of them per run");
  if (config.tiles.empty()) throw Error(Cause::usage, "a GEMM without tiles", "`tiles=1,4`");
  for (const int tiles : config.tiles) within(tiles, 1, 64, "`tiles`");
  for (const GemmSizes& sizes : config.shapes)
    for (const int64_t size : {sizes.m, sizes.n, sizes.k}) within(size, 1, 1 << 17, "a size of `shapes`");
  for (const NormSizes& sizes : config.norm_shapes)
    for (const int64_t size : {sizes.rows, sizes.width}) within(size, 1, 1 << 17, "a size of `shapes`");
}

std::string norm_identity(const OneSidedConfig& config) {
  std::string text = "yes";
  for (const NormSizes& sizes : config.norm_shapes) text += fmt::format(" {}x{}", sizes.rows, sizes.width);
  return text;
}

std::string gemm_identity(const OneSidedConfig& config) {
  std::string text = fmt::format("tiles {}", fmt::join(config.tiles, ","));
  for (const GemmSizes& sizes : config.shapes) text += fmt::format(" {}x{}x{}", sizes.m, sizes.n, sizes.k);
  return text;
}

std::map<std::string, std::string> onesided_identity(const OneSidedConfig& config) {
  return {{"operations", fmt::format("{}", fmt::join(config.operations, ","))},
          {"devices", std::to_string(config.devices)},
          {"patterns", config.patterns ? "yes" : "no"},
          {"gemm", config.gemm ? gemm_identity(config) : "no"},
          {"norm", config.norm ? norm_identity(config) : "no"},
          {"locality", config.locality ? "yes" : "no"},
          {"partitions", std::to_string(config.partitions)},
          {"min_bytes", std::to_string(config.min_bytes)},
          {"max_bytes", std::to_string(config.max_bytes)},
          {"samples", std::to_string(config.samples)}};
}

/// Measures on the ranks of a fleet that includes this process.
bool measure_here(const OneSidedConfig& config, const char* ranks, const Sink& sink, Observer& observer,
                  FailureWatch& watch) {
  const EngineConfig engine = engine_of(config);
  JobFacts facts = onesided_identity(config);
  facts["command"] = "onesided";
  const std::unique_ptr<Fleet> fleet = config.partitions > 0
                                           ? make_partition_fleet(engine, config.partitions)
                                           : make_fleet(engine, config.devices, facts, FleetNeeds::devices);
  watch.met();
  watch.begin(fleet->record_flights(fleet->is_root() ? config.output_dir : ""));
  fleet->end_runs_when([&observer] { return observer.cancelled(); });
  OneSidedSettings settings;
  settings.operations = find_one_sided_operations(config.operations);
  settings.sizes = one_sided_sizes(config.min_bytes, config.max_bytes);
  settings.devices = config.partitions > 0 ? config.partitions : config.devices;
  settings.ranks = ranks;
  settings.two_sided = config.partitions == 0;
  settings.samples = config.samples;
  settings.least_sample_us = config.least_sample_us;
  settings.threads = config.threads, settings.blocks = config.blocks;
  settings.seed = config.seed;
  settings.timeout_seconds = config.timeout_seconds;
  settings.make_transfer = make_transfer;
  settings.provenance = make_provenance(engine, *fleet);
  settings.norm_sizes = config.norm_shapes;
  settings.gemm_sizes = config.shapes, settings.gemm_tiles = config.tiles;
  if (config.patterns)
    run_onesided_patterns(*fleet, settings, sink, observer);
  else if (config.gemm)
    run_onesided_gemms(*fleet, settings, sink, observer);
  else if (config.norm)
    run_onesided_norms(*fleet, settings, sink, observer);
  else if (config.locality)
    run_onesided_locality(*fleet, settings, sink, observer);
  else
    run_onesided_cells(*fleet, settings, sink, observer);
  fleet->agree("done");  // no process exits while a peer still works
  return fleet->is_root();
}

/// Measures on processes that this one starts.
void measure_in_processes(const OneSidedConfig& config, const Sink& sink, Observer& observer) {
  constexpr double kMostSeconds = 3600;
  if (config.program.empty() || !config.arguments)
    throw Error(Cause::usage, "ranks as processes, and no program to start", "`ranks=threads`");
  const TemporaryFolder folder(config.environment);
  OneSidedConfig child = config;
  child.ranks = {kProcesses};
  child.output_dir = (folder.path() / "run").string();
  const ChildCommand command{config.program, config.arguments(child), inherited_environment(config.environment)};
  observer.note(fmt::format("measuring {} processes", config.devices));
  const std::vector<ChildResult> results =
      run_children(as_ranks(command, config.devices), Deadline::after_seconds(kMostSeconds),
                   [&observer] { return observer.cancelled(); });
  if (std::filesystem::exists(std::filesystem::path(child.output_dir) / kRecordsFile))
    for (const Record& record : read_records(child.output_dir)) sink(record);
  if (observer.cancelled())
    throw Error(Cause::interrupted, "stopped by the user; what was measured so far is kept", "fewer `operations`");
  for (const ChildResult& result : results)
    if (result.end != ChildResult::End::exited || (result.code != 0 && result.code != exit_code(Cause::check_failed)))
      throw Error(Cause::check_failed, "ranks as processes: " + reason_of_failure(results, kMostSeconds),
                  "`ranks=threads` for the others");
}

OneSidedOutcome measure_onesided(const OneSidedConfig& config, Observer& observer, FailureWatch& watch) {
  check_onesided(config);
  const EngineConfig engine = engine_of(config);
  check_engine(engine);
  const bool on_gpus = choose_backend(engine, FleetNeeds::devices).name == "cuda";
  if (config.partitions > 0 && !on_gpus)
    throw Error(Cause::usage, fmt::format("`partitions` is {}: CPU devices have none", config.partitions),
                "`devices`, or a GPU");
  check_onesided_peers(config);
  if (!config.peers.empty() && !on_gpus)
    throw Error(Cause::usage, "`peers` between CPU ranks", "`backend=cuda` with several GPUs");
  if (config.patterns && on_gpus) throw Error(Cause::usage, "`patterns` between GPUs", "`backend=cpu`");
  const bool launched = detect_launch(config.environment).multi_process();
  OneSidedOutcome outcome;
  outcome.run_dir = config.output_dir;
  std::optional<RunFolder> folder;
  const Sink sink = [&](const Record& record) {
    if (!folder && !config.output_dir.empty())
      folder = RunFolder::create(config.output_dir, {"onesided", onesided_identity(config)});
    if (folder) folder->append(record);
    outcome.records.push_back(record);
  };
  const auto wanted = [&](const char* ranks) {
    return std::find(config.ranks.begin(), config.ranks.end(), ranks) != config.ranks.end();
  };
  // GPUs are driven by threads unless only processes are asked for, which need NCCL.
  const bool in_processes = !launched && config.partitions == 0 && wanted(kProcesses) && !(on_gpus && wanted(kThreads));
  if (launched)
    outcome.is_root = measure_here(config, kProcesses, sink, observer, watch);
  else if (config.partitions > 0)
    measure_here(config, "partitions", sink, observer, watch);
  else if (wanted(kThreads))
    measure_here(config, kThreads, sink, observer, watch);
  if (in_processes) measure_in_processes(config, sink, observer);
  if (!outcome.is_root) return outcome;
  if (!outcome.records.empty()) {
    const Record like = outcome.records.front();
    measure_onesided_peers(config, like, sink, observer);
  }
  if (folder) folder->end();
  conclude_onesided(outcome);
  if (folder) write_onesided_report(folder->path(), outcome);
  return outcome;
}

}  // namespace

OneSidedOutcome run_onesided(const OneSidedConfig& config, Observer& observer) {
  return FailureWatch::over([&](FailureWatch& watch) { return measure_onesided(config, observer, watch); },
                            config.environment);
}

}  // namespace amdahl

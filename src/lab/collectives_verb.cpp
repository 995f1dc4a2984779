// Collectives: sweep, records, tables.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "amdahl/amdahl.h"
#include "comm/world.h"
#include "lab/backends.h"
#include "lab/provenance.h"
#include "lab/training_setup.h"
#include "measure/collective_sweep.h"
#include "report/collectives.h"
#include "spec/json.h"
#include "spec/run_folder.h"
#include "topology/machine_probe.h"

namespace amdahl {
namespace {

EngineConfig engine_of(const CollectivesConfig& config) {
  EngineConfig engine;
  engine.backend = config.backend;
  engine.gpus = config.gpus;
  engine.seed = config.seed;
  engine.timeout_seconds = config.timeout_seconds;
  engine.environment = config.environment;
  engine.command_line = config.command_line;
  engine.machine = config.machine;
  engine.on_fatal = config.on_fatal;
  engine.launch = config.graph > 0 ? LaunchMode::graph : LaunchMode::eager;
  return engine;
}

void check_numbers(const CollectivesConfig& config) {
  constexpr int64_t kMostBytes = int64_t{1} << 40;
  constexpr int kMostIterations = 1'000'000;
  const auto within = [](int64_t value, int64_t low, int64_t high, const char* option) {
    if (value < low || value > high)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("{} to {}", low, high));
  };
  within(config.min_bytes, 1, kMostBytes, "--min-bytes");
  within(config.max_bytes, 1, kMostBytes, "--max-bytes");
  within(config.step_bytes, 0, kMostBytes, "--step-bytes");
  within(config.step_factor, 2, 1 << 20, "--step-factor");
  within(config.iterations, 1, kMostIterations, "--iterations");
  within(config.warmup, 0, kMostIterations, "--warmup");
  within(config.graph, 0, 10'000, "--graph");
  within(config.devices, 0, 1 << 16, "--devices");
  if (config.min_bytes > config.max_bytes)
    throw Error(Cause::usage, fmt::format("--min-bytes {} is above --max-bytes {}", config.min_bytes, config.max_bytes),
                "the smaller size first");
  if (config.collectives.empty()) throw Error(Cause::usage, "no collective was named", "--collective all_reduce");
}

int device_count(const CollectivesConfig& config, const EngineConfig& engine) {
  const LaunchContext launch = detect_launch(engine.environment);
  if (launch.multi_process() && config.devices > 0 && config.devices != launch.world_size)
    throw Error(
        Cause::usage,
        fmt::format("--devices is {} but {} started {} processes", config.devices, launch.family, launch.world_size),
        "leave --devices out: every process is one rank");
  if (config.devices > 0) return config.devices;
  return static_cast<int>(default_device_counts(engine).back());
}

/// What the slowest pair of these devices can carry in one direction, 0 when the machine does not say.
double peak_gbps(const Fleet& fleet, int devices) {
  if (fleet.device_kind() != "cuda") return 0;
  const MachineSpec machine = probe_machine("/sys", 0);
  double slowest = 0;
  for (const LinkSpec& link : machine.links) {
    const auto used = [&](int index) {
      const auto& specs = fleet.devices();
      return std::any_of(specs.begin(), specs.begin() + std::min<std::ptrdiff_t>(devices, std::ssize(specs)),
                         [&](const DeviceSpec& spec) { return spec.index == index; });
    };
    if (!used(link.source) || !used(link.destination)) continue;
    if (link.path != PathKind::nvlink) return 0;  // shared memory of the host may carry it
    slowest = slowest == 0 ? link.raw_gbps : std::min(slowest, link.raw_gbps);
  }
  return slowest;
}

SweepSettings settings_of(const CollectivesConfig& config, const CollectiveRow& row, int devices) {
  SweepSettings settings;
  settings.row = &row;
  settings.type = parse_dtype(config.dtype);
  settings.op = parse_reduce_op(config.op);
  settings.root = config.root;
  settings.devices = devices;
  settings.sizes = sweep_sizes(config.min_bytes, config.max_bytes, config.step_bytes, config.step_factor);
  settings.iterations = config.iterations;
  settings.warmup = config.warmup;
  settings.check = config.check;
  settings.graph = config.graph;
  settings.seed = config.seed;
  settings.timeout_seconds = config.timeout_seconds;
  return settings;
}

std::map<std::string, std::string> identity(const CollectivesConfig& config, int devices) {
  return {{"collectives", fmt::format("{}", fmt::join(config.collectives, ","))},
          {"dtype", config.dtype},
          {"op", config.op},
          {"devices", std::to_string(devices)},
          {"min_bytes", std::to_string(config.min_bytes)},
          {"max_bytes", std::to_string(config.max_bytes)},
          {"iterations", std::to_string(config.iterations)}};
}

}  // namespace

CollectivesOutcome run_collectives(const CollectivesConfig& config, Observer& observer) {
  check_numbers(config);
  const EngineConfig engine = engine_of(config);
  check_engine(engine);
  choose_backend(engine);
  const int devices = device_count(config, engine);
  std::vector<SweepSettings> sweeps;
  for (const std::string& name : config.collectives)
    sweeps.push_back(settings_of(config, find_collective(name), devices));
  if (config.root < 0 || config.root >= devices)
    throw Error(Cause::usage, fmt::format("--root is {} and there are {} ranks", config.root, devices),
                fmt::format("0 to {}", devices - 1));
  CollectivesOutcome outcome;
  if (devices < 2) {
    outcome.waived = "1 rank: a collective needs another";
    return outcome;
  }
  const std::unique_ptr<Fleet> fleet = make_fleet(engine, devices);
  require_launch_mode(*fleet, engine.launch);
  outcome.is_root = fleet->is_root();
  outcome.run_dir = config.output_dir;
  std::optional<RunFolder> folder;
  if (fleet->is_root() && !config.output_dir.empty())
    folder = RunFolder::create(config.output_dir, {"collectives", identity(config, devices)});
  fleet->end_runs_when([&observer] { return observer.cancelled(); });
  const Provenance provenance = make_provenance(engine, *fleet);
  const double peak = peak_gbps(*fleet, devices);
  for (SweepSettings& sweep : sweeps) {
    sweep.provenance = provenance;
    sweep.peak_gbps = peak;
    run_sweep(
        *fleet, sweep,
        [&](const Record& record) {
          if (folder) folder->append(record);
          outcome.failed = outcome.failed || record.status.kind == Status::Kind::failed;
          outcome.records.push_back(record);
        },
        observer);
  }
  fleet->agree("done");  // nobody leaves while a peer still works
  outcome.text = collectives_text(outcome.records);
  outcome.nccl_tests = collectives_nccl_tests(outcome.records);
  outcome.json = records_to_json(outcome.records);
  return outcome;
}

}  // namespace amdahl

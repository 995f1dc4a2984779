// Collectives: sweep, records, tables.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "amdahl/amdahl.h"
#include "comm/world.h"
#include "lab/backends.h"
#include "lab/collectives_setup.h"
#include "lab/provenance.h"
#include "lab/training_setup.h"
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

/// Before anything is measured: settings of NCCL without NCCL would measure something else than was asked for.
void require_nccl(const Fleet& fleet, const CollectivesConfig& config) {
  if (fleet.device_kind() == "cuda") return;
  if (config.registration > 0)
    throw Error(Cause::usage, fmt::format("-R {}: CPU virtual devices register no buffers", config.registration),
                "-R 0, or GPUs");
  if (!config.nccl_settings.empty())
    throw Error(
        Cause::usage,
        fmt::format("{} is about NCCL, which CPU virtual devices do not use", config.nccl_settings.begin()->first),
        "no --profile and no --set, or GPUs");
}

}  // namespace

CollectivesOutcome run_collectives(const CollectivesConfig& config, Observer& observer) {
  check_collectives(config);
  const EngineConfig engine = engine_of(config);
  check_engine(engine);
  choose_backend(engine);
  const int devices = device_count(config, engine);
  std::vector<SweepSettings> sweeps = sweeps_of(config, devices);
  CollectivesOutcome outcome;
  if (devices < 2) {
    outcome.waived = "1 rank: a collective needs another";
    return outcome;
  }
  const std::unique_ptr<Fleet> fleet = make_fleet(engine, devices);
  require_launch_mode(*fleet, engine.launch);
  require_nccl(*fleet, config);
  outcome.is_root = fleet->is_root();
  outcome.run_dir = config.output_dir;
  std::optional<RunFolder> folder;
  if (fleet->is_root() && !config.output_dir.empty())
    folder = RunFolder::create(config.output_dir, {"collectives", collectives_identity(config, devices)});
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

// Collectives: sweep, records, tables.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "amdahl/amdahl.h"
#include "comm/world.h"
#include "lab/backends.h"
#include "lab/collectives_setup.h"
#include "lab/fabric_reports.h"
#include "lab/provenance.h"
#include "lab/training_setup.h"
#include "spec/run_folder.h"
#include "topology/machine_probe.h"

namespace amdahl {
namespace {

EngineConfig engine_of(const CollectivesConfig& config) {
  EngineConfig engine;
  engine.backend = config.backend;
  engine.gpus = config.gpus;
  engine.processes = config.processes;
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

/// What a device can send in one direction to the others, of the one that can send least: its links into the switches,
/// or without switches those to every other device. 0 when the machine does not say.
double device_gbps(const Fleet& fleet, int devices, bool& switched) {
  if (fleet.device_kind() != "cuda") return 0;
  const MachineSpec machine = probe_machine("/sys", 0);
  std::map<int, double> out;
  const auto used = [&](int index) {
    const auto& specs = fleet.devices();
    return std::any_of(specs.begin(), specs.begin() + std::min<std::ptrdiff_t>(devices, std::ssize(specs)),
                       [&](const DeviceSpec& spec) { return spec.index == index; });
  };
  for (const LinkSpec& link : machine.links) {
    if (!used(link.source) || !used(link.destination)) continue;
    if (link.path != PathKind::nvlink) return 0;  // shared memory of the host may carry it
    switched = switched || link.through_switch;
    double& gbps = out[link.source];
    gbps = link.through_switch ? std::max(gbps, link.raw_gbps) : gbps + link.raw_gbps;
  }
  double least = 0;
  for (const auto& [index, gbps] : out) least = least == 0 ? gbps : std::min(least, gbps);
  return least;
}

/// The bus bandwidth that no measurement of a collective can exceed. Switches may add up an all-reduce themselves: then
/// a device sends and receives its data once, and not 2 (n - 1) / n times.
double peak_gbps(const CollectiveRow& row, double device, bool switched, int devices) {
  return switched && row.name == "all_reduce" ? device * row.bus_factor(devices) : device;
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
  choose_backend(engine, FleetNeeds::devices);
  const int devices = device_count(config, engine);
  std::vector<SweepSettings> sweeps = sweeps_of(config, devices);
  CollectivesOutcome outcome;
  if (devices < 2) {
    outcome.waived = "1 rank: a collective needs another";
    return outcome;
  }
  const std::unique_ptr<Fleet> fleet = make_fleet(engine, devices, FleetNeeds::devices);
  require_launch_mode(*fleet, engine.launch);
  require_nccl(*fleet, config);
  outcome.is_root = fleet->is_root();
  outcome.run_dir = config.output_dir;
  std::optional<RunFolder> folder;
  if (fleet->is_root() && !config.output_dir.empty())
    folder = RunFolder::create(config.output_dir, {"collectives", collectives_identity(config, devices)});
  fleet->end_runs_when([&observer] { return observer.cancelled(); });
  const Provenance provenance = make_provenance(engine, *fleet);
  bool switched = false;
  const double device = device_gbps(*fleet, devices, switched);
  for (SweepSettings& sweep : sweeps) {
    sweep.provenance = provenance;
    sweep.peak_gbps = peak_gbps(*sweep.row, device, switched, devices);
    run_sweep(
        *fleet, sweep,
        [&](const Record& record) {
          if (folder) folder->append(record);
          outcome.records.push_back(record);
        },
        observer);
  }
  fleet->agree("done");  // nobody leaves while a peer still works
  conclude_collectives(outcome);
  if (folder) write_collectives_report(folder->path(), outcome);
  return outcome;
}

}  // namespace amdahl

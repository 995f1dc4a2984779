// Collectives: sweep, records, tables.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "amdahl/fabric.h"
#include "comm/world.h"
#include "setup/backends.h"
#include "setup/failure_watch.h"
#include "setup/fresh_processes.h"
#include "setup/provenance.h"
#include "setup/training_setup.h"
#include "spec/run_folder.h"
#include "topology/machine_probe.h"
#include "verbs/fabric/collectives_setup.h"
#include "verbs/fabric/fabric_reports.h"

namespace amdahl {
namespace {

EngineConfig engine_of(const CollectivesConfig& config) {
  EngineConfig engine;
  engine.backend = config.backend;
  engine.gpus = config.gpus;
  engine.processes = config.processes;
  engine.comm = config.comm, engine.comm_table = config.comm_table;
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
        fmt::format("`devices` is {} but {} started {} processes", config.devices, launch.family, launch.world_size),
        "leave `devices` out: every process is one rank");
  if (config.devices > 0) return config.devices;
  return static_cast<int>(default_device_counts(engine).back());
}

/// NVLS requires compute capability 9.0.
bool can_be_reduced_for(const DeviceSpec& spec) { return std::atof(spec.compute_capability.c_str()) >= 9.0; }

/// Fabric of the device with the lowest outgoing bandwidth: its links to the switches or, without switches, to every
/// other device. Empty when the machine does not tell.
NvlinkFabric nvlink_fabric(const Fleet& fleet, int devices) {
  if (fleet.device_kind() != "cuda") return {};
  const std::vector<DeviceSpec>& specs = fleet.devices();
  const auto used_end = specs.begin() + std::min<std::ptrdiff_t>(devices, std::ssize(specs));
  const auto used = [&](int index) {
    return std::any_of(specs.begin(), used_end, [&](const DeviceSpec& spec) { return spec.index == index; });
  };
  NvlinkFabric fabric;
  std::map<int, double> out;
  for (const LinkSpec& link : probe_machine("/sys", 0).links) {
    if (!used(link.source) || !used(link.destination)) continue;
    if (link.path != PathKind::nvlink) return {};  // data may go through host shared memory
    fabric.switches_reduce = fabric.switches_reduce || link.through_switch;
    double& gbps = out[link.source];
    gbps = link.through_switch ? std::max(gbps, link.raw_gbps) : gbps + link.raw_gbps;
  }
  for (const auto& [index, gbps] : out)
    fabric.link_gbps = fabric.link_gbps == 0 ? gbps : std::min(fabric.link_gbps, gbps);
  fabric.switches_reduce = fabric.switches_reduce && std::all_of(specs.begin(), used_end, can_be_reduced_for);
  return fabric;
}

/// Called before measuring: NCCL settings without NCCL would measure something else than requested.
void require_nccl(const Fleet& fleet, const CollectivesConfig& config) {
  if (fleet.device_kind() == "cuda") return;
  if (config.registration > 0)
    throw Error(Cause::usage, fmt::format("-R {}: CPU virtual devices register no buffers", config.registration),
                "-R 0, or GPUs");
  if (!config.nccl_settings.empty())
    throw Error(
        Cause::usage,
        fmt::format("{} is about NCCL, which CPU virtual devices do not use", config.nccl_settings.begin()->first),
        "no `assignments`, or GPUs");
}

CollectivesOutcome measure_collectives(const CollectivesConfig& config, Observer& observer, FailureWatch& watch) {
  check_collectives(config);
  check_fresh_processes(config.repeat, config.environment, "`repeat`");
  const EngineConfig engine = engine_of(config);
  check_engine(engine);
  choose_backend(engine, FleetNeeds::devices);
  const int devices = device_count(config, engine);
  std::vector<SweepSettings> sweeps = sweeps_of(config, devices);
  CollectivesOutcome outcome;
  if (devices < 2) {
    outcome.waived = "1 rank: a collective needs at least 2 devices";
    return outcome;
  }
  const RunHeader header{"collectives", collectives_identity(config, devices)};
  outcome.run_dir = config.output_dir;
  if (config.repeat.is_parent()) {
    outcome.records = repeat_in_processes(config.repeat, config.environment, config.output_dir, header, observer);
    conclude_collectives(outcome);
    if (!config.output_dir.empty()) write_collectives_report(config.output_dir, outcome);
    return outcome;
  }
  const std::unique_ptr<Fleet> fleet =
      make_fleet(engine, devices, collectives_facts(config, devices), FleetNeeds::devices);
  watch.met();
  require_launch_mode(*fleet, engine.launch);
  require_nccl(*fleet, config);
  outcome.is_root = fleet->is_root();
  std::optional<RunFolder> folder;
  if (fleet->is_root() && !config.output_dir.empty())
    folder = open_run_folder(config.repeat, config.output_dir, header);
  watch.begin(fleet->record_flights(folder ? config.output_dir : ""));
  fleet->end_runs_when([&observer] { return observer.cancelled(); });
  const Provenance provenance = make_provenance(engine, *fleet);
  const NvlinkFabric fabric = nvlink_fabric(*fleet, devices);
  for (SweepSettings& sweep : sweeps) {
    sweep.provenance = provenance;
    set_limit(fabric, config.environment, sweep);
    run_sweep(
        *fleet, sweep,
        [&](Record record) {
          mark_process(record, config.repeat);
          if (folder) folder->append(record);
          outcome.records.push_back(record);
        },
        observer);
  }
  fleet->agree("done");  // no process exits while a peer still works
  if (config.repeat.is_child()) return outcome;
  if (folder) folder->end();
  conclude_collectives(outcome);
  if (folder) write_collectives_report(folder->path(), outcome);
  return outcome;
}

}  // namespace

CollectivesOutcome run_collectives(const CollectivesConfig& config, Observer& observer) {
  return FailureWatch::over([&](FailureWatch& watch) { return measure_collectives(config, observer, watch); },
                            config.environment);
}

}  // namespace amdahl

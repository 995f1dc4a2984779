// CPU virtual devices: threads in one process, Gloo between launched processes.
#include <fmt/format.h>

#include "measure/local_fleet.h"
#include "setup/backends.h"
#include "setup/comm_choice.h"
#include "setup/failure_watch.h"

namespace amdahl {

constexpr int kMaxVirtualDevices = 1024;  // each has one or two threads

namespace {

void check_count(int count) {
  if (count > kMaxVirtualDevices)
    throw Error(Cause::usage, fmt::format("`devices` asks for {} CPU virtual devices in one process", count),
                fmt::format("at most {}", kMaxVirtualDevices));
}

}  // namespace

std::vector<LinkDevice> make_cpu_link_devices(const EngineConfig&, int count) {
  check_count(count);
  std::vector<LinkDevice> devices;
  for (auto& device : make_cpu_devices(count)) {
    auto transfer = make_cpu_transfer(*device);
    devices.push_back({std::move(device), std::move(transfer)});
  }
  return devices;
}

std::unique_ptr<Fleet> make_cpu_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                      FleetNeeds needs) {
  const LaunchContext launch = detect_launch(config.environment);
  if (!launch.multi_process()) check_count(max_devices);
  FleetParts parts;
  parts.device_kind = "cpu-virtual";
  parts.on_failure = leave_failure;
  parts.devices = make_limited_cpu_devices(device_speeds(config, launch, max_devices));
  if (config.launch == LaunchMode::graph) {
    const Feasibility graphs = parts.devices.front()->supports_graphs();
    if (!graphs.ok) throw Error(Cause::usage, "launch mode graph: " + graphs.reason, "`launch=eager`");
  }
  parts.needs = needs;
  parts.make_ops = [options = OpsOptions{config.math, config.deterministic}](Device& device) {
    return make_cpu_ops(device, options);
  };
  const double timeout = config.timeout_seconds;
  const std::optional<SymmetricOptions> symmetric = symmetric_options(config, parts.device_kind);
  if (!launch.multi_process())
    return make_thread_fleet(std::move(parts), [timeout, symmetric](const std::vector<Device*>& devices) {
      auto threads = make_inproc_communicators(static_cast<int>(devices.size()), timeout);
      return symmetric ? make_symmetric_communicators(devices, std::move(threads), timeout, *symmetric)
                       : std::move(threads);
    });
  require_world(launch, max_devices);
  const auto make_group = config.processes == "mpi" ? make_mpi_communicator : make_gloo_communicator;
  return make_process_fleet(
      std::move(parts), launch, join_job(launch, config, facts),
      [timeout, make_group, symmetric](RendezvousStore& rendezvous, const std::string& name, int rank, int world_size,
                                       Device& device) {
        const RankGroup group = RankGroup::first(world_size, rank);
        auto processes = make_group(rendezvous, name, group, timeout);
        return symmetric ? make_symmetric_communicator(device, std::move(processes), group, timeout, *symmetric)
                         : std::move(processes);
      },
      config);
}

}  // namespace amdahl

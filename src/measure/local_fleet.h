// Fleets: ranks as threads of this process, or this process as one rank of a launched job.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "comm/job_facts.h"
#include "comm/world.h"
#include "measure/fleet.h"

namespace amdahl {

/// `math`: the model operations of every device are created with the fleet, so that a missing library is reported
/// before anything is measured. `devices`: they are created on first use, so that their library may be missing.
enum class FleetNeeds { math, devices };

/// How a backend creates communicators over two or more devices, in rank order. A single device needs no backend:
/// fleets use the single-rank communicator for it, under every strategy.
using MakeCommunicators =
    std::function<std::vector<std::unique_ptr<Communicator>>(const std::vector<Device*>& devices)>;

struct FleetParts {
  std::string device_kind;
  std::vector<std::unique_ptr<Device>> devices;
  std::function<std::unique_ptr<Ops>(Device&)> make_ops;
  FleetNeeds needs = FleetNeeds::math;
  /// Called with the run folder (record_flights) and the error that ends a run; must not throw. May be empty.
  std::function<void(const std::string& run_dir, const Error& error)> on_failure;
};

/// All ranks are threads of this process.
std::unique_ptr<Fleet> make_thread_fleet(FleetParts parts, MakeCommunicators make_communicators);

/// This process is one rank of a launched job; `parts` holds its single device.
using MakeGroup = std::function<std::unique_ptr<Communicator>(RendezvousStore& store, const std::string& name, int rank,
                                                              int world_size, Device& device)>;
std::unique_ptr<Fleet> make_process_fleet(FleetParts parts, const LaunchContext& launch,
                                          std::unique_ptr<RendezvousStore> store, MakeGroup make_group,
                                          const EngineConfig& config);

/// Joins the launched job: returns its rendezvous store once all ranks have connected with equal `facts`.
std::unique_ptr<RendezvousStore> join_job(const LaunchContext& launch, const EngineConfig& config,
                                          const JobFacts& facts);

/// Error{usage} when a launched job would use only one of its ranks, and when it has fewer ranks than the largest
/// requested device count.
void require_world(const LaunchContext& launch, int max_devices);

}  // namespace amdahl

// Fleets: ranks as threads of this process, or one rank per launched process.
#pragma once

#include <map>
#include <memory>

#include "amdahl/engine.h"
#include "comm/job_facts.h"
#include "comm/world.h"
#include "measure/fleet.h"

namespace amdahl {

/// `math`: every device's operations of models are made with the fleet, so that what is missing is said before anything
/// is measured. `devices`: none are made until they are used, so that nothing has to be there for them.
enum class FleetNeeds { math, devices };

/// How a backend makes communicators over these devices, two or more, in rank order. A device by itself needs none of
/// the backend's means: fleets give it the communicator of a lone rank, under every strategy.
using MakeCommunicators =
    std::function<std::vector<std::unique_ptr<Communicator>>(const std::vector<Device*>& devices)>;

struct FleetParts {
  std::string device_kind;
  std::vector<std::unique_ptr<Device>> devices;
  std::function<std::unique_ptr<Ops>(Device&)> make_ops;
  FleetNeeds needs = FleetNeeds::math;
};

/// All ranks are threads of this process.
std::unique_ptr<Fleet> make_thread_fleet(FleetParts parts, MakeCommunicators make_communicators);

/// This process is one rank of a launched job; `parts` hold its single device.
using MakeGroup = std::function<std::unique_ptr<Communicator>(RendezvousStore& store, const std::string& name, int rank,
                                                              int world_size, Device& device)>;
std::unique_ptr<Fleet> make_process_fleet(FleetParts parts, const LaunchContext& launch,
                                          std::unique_ptr<RendezvousStore> store, MakeGroup make_group,
                                          const EngineConfig& config);

/// Joins the launched job: its rendezvous, once all ranks are there and were started alike in `facts`.
std::unique_ptr<RendezvousStore> join_job(const LaunchContext& launch, const EngineConfig& config,
                                          const JobFacts& facts);

/// Error{usage} when a launched job would use one of its ranks alone, and when it has fewer ranks than the largest
/// device count that was asked for.
void require_world(const LaunchContext& launch, int max_devices);

}  // namespace amdahl

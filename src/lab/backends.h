// The composition root's list of backends: the only place that names them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "lab/local_fleet.h"
#include "measure/fleet.h"
#include "measure/links/bench.h"
#include "sensor/sensor_ops.h"

namespace amdahl {

/// One way to get devices. Rows in order of preference for `backend` auto.
struct BackendRow {
  std::string_view name;  // "cuda", "cpu"
  Availability (*availability)();
  Availability (*math_availability)();  // of what models compute with
  /// A fleet that can run up to `max_devices` ranks; Error{environment_missing} when there are fewer devices.
  std::unique_ptr<Fleet> (*make_fleet)(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                       FleetNeeds needs);
  /// `count` devices of this process with what moves bytes between them.
  std::vector<LinkDevice> (*make_link_devices)(const EngineConfig& config, int count);
};
const std::vector<BackendRow>& backend_table();

/// Device counts to compare when the user names none: 1, 2, 4, ... up to the GPUs at hand, 1 and 2 virtual devices on
/// CPU, one and all ranks of a launched job.
std::vector<int64_t> default_device_counts(const EngineConfig& config);

/// The row that `config.backend` names ("auto": the first available). Error{environment_missing} with reason and
/// remedy.
const BackendRow& choose_backend(const EngineConfig& config, FleetNeeds needs = FleetNeeds::math);

/// Error{usage} when the fleet's devices cannot launch steps that way.
void require_launch_mode(Fleet& fleet, LaunchMode mode);

/// Operations of models, sensor operations, and transfers, of the device's backend.
std::unique_ptr<Ops> make_model_ops(Device& device, const OpsOptions& options);
std::unique_ptr<SensorOps> make_sensor_ops(Device& device);
std::unique_ptr<Transfer> make_transfer(Device& device);

/// Fleet of the chosen backend. `facts`: what the command does, alike on every rank of a launched job, or
/// Error{launcher_mismatch} that names the fields and the ranks that differ; those of the engine and of the program are
/// added here.
std::unique_ptr<Fleet> make_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                  FleetNeeds needs = FleetNeeds::math);

/// GPUs of this process, and what makes them unlike.
struct UnlikeDevices {
  int num_gpus = 1;
  std::vector<double> sm_shares;  // of each GPU's multiprocessors; empty: all
  bool cpu_share = false;         // a CPU virtual device, the last
};
/// For operations other than models'. The communicator of a fleet with a CPU device exchanges messages; no collective
/// moves data between devices of unlike kinds.
std::unique_ptr<Fleet> make_unlike_fleet(const EngineConfig& config, const UnlikeDevices& devices);

std::vector<LinkDevice> make_cpu_link_devices(const EngineConfig& config, int count);
std::vector<LinkDevice> make_cuda_link_devices(const EngineConfig& config, int count);
std::unique_ptr<Fleet> make_cpu_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                      FleetNeeds needs);
std::unique_ptr<Fleet> make_cuda_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                       FleetNeeds needs);

}  // namespace amdahl

// The list of backends of the composition root: the only place that names backends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "measure/fleet.h"
#include "measure/links/bench.h"
#include "measure/local_fleet.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// One backend. Rows are in order of preference for `backend` auto.
struct BackendRow {
  std::string_view name;  // "cuda", "cpu"
  Availability (*availability)();
  Availability (*math_availability)();  // of the library that models compute with
  /// A fleet that can run up to `max_devices` ranks; Error{environment_missing} when there are fewer devices.
  std::unique_ptr<Fleet> (*make_fleet)(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                       FleetNeeds needs);
  /// `count` devices of this process, each with the means to transfer data between them.
  std::vector<LinkDevice> (*make_link_devices)(const EngineConfig& config, int count);
};
const std::vector<BackendRow>& backend_table();

/// Device counts to compare when the user names none: 1, 2, 4, ... up to the number of GPUs; 1 and 2 virtual devices on
/// CPU; one rank and all ranks of a launched job.
std::vector<int64_t> default_device_counts(const EngineConfig& config);

/// The row that `config.backend` names ("auto": the first available). Error{environment_missing} with reason and
/// remedy.
const BackendRow& choose_backend(const EngineConfig& config, FleetNeeds needs = FleetNeeds::math);

/// The fraction of its speed of every device of this process: `config.device_speeds`, 1 where it names none.
std::vector<double> device_speeds(const EngineConfig& config, const LaunchContext& launch, int max_devices);

/// Error{usage} when the fleet's devices do not support the launch mode.
void require_launch_mode(Fleet& fleet, LaunchMode mode);

/// Model operations, sensor operations and transfers of the device's backend.
std::unique_ptr<Ops> make_model_ops(Device& device, const OpsOptions& options);
std::unique_ptr<SensorOps> make_sensor_ops(Device& device);
std::unique_ptr<Transfer> make_transfer(Device& device);

/// Fleet of the chosen backend. `facts`: what the command does; it must be equal on all ranks of a launched job,
/// otherwise Error{launcher_mismatch} naming the fields and ranks that differ. Facts of the engine and of the program
/// are added here.
std::unique_ptr<Fleet> make_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                  FleetNeeds needs = FleetNeeds::math);

/// GPUs of this process, and what makes them heterogeneous.
struct HeterogeneousDevices {
  int num_gpus = 1;
  std::vector<double> sm_shares;  // share of each GPU's SMs that is used; empty: all SMs
  bool cpu_share = false;         // a CPU virtual device is added as the last device
};
/// A fleet of heterogeneous devices, for sensor operations only, not for models. The communicator of a fleet with a CPU
/// device only exchanges messages; no collective moves data between devices of different kinds.
std::unique_ptr<Fleet> make_heterogeneous_fleet(const EngineConfig& config, const HeterogeneousDevices& devices);

/// `count` partitions of one GPU, each a rank; their communicator only exchanges messages.
std::unique_ptr<Fleet> make_partition_fleet(const EngineConfig& config, int count);

std::vector<LinkDevice> make_cpu_link_devices(const EngineConfig& config, int count);
std::vector<LinkDevice> make_cuda_link_devices(const EngineConfig& config, int count);
std::unique_ptr<Fleet> make_cpu_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                      FleetNeeds needs);
std::unique_ptr<Fleet> make_cuda_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                       FleetNeeds needs);

}  // namespace amdahl

// CUDA devices: NCCL, with all GPUs in one process or one launched process per GPU.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "measure/local_fleet.h"
#include "setup/backends.h"
#include "setup/comm_choice.h"
#include "setup/failure_watch.h"

namespace amdahl {
namespace {

/// Partitions of one GPU, as large as its groups of multiprocessors allow: 132 multiprocessors are 15 groups of 8, not
/// two halves of 8 groups each.
std::vector<std::unique_ptr<Device>> make_equal_partitions(int gpu, int count) {
  constexpr double kStep = 0.9, kLeast = 0.4;
  const std::vector<int> indices(static_cast<size_t>(count), gpu);
  for (double part = 1;; part *= kStep) try {
      return make_cuda_devices(indices, std::vector<double>(indices.size(), part / count));
    } catch (const Error& error) {
      if (error.cause() != Cause::environment_missing || part < kLeast) throw;
    }
}

std::vector<int> pick_devices(const EngineConfig& config, const LaunchContext& launch, int max_devices) {
  const auto present = static_cast<int>(list_cuda_devices().size());
  std::vector<int> wanted = config.gpus;
  if (wanted.empty()) {
    wanted.resize(static_cast<size_t>(present));
    std::iota(wanted.begin(), wanted.end(), 0);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0 || wanted[i] >= present)
      throw Error(Cause::environment_missing,
                  fmt::format("GPU {} was asked for but this machine has {}", wanted[i], present),
                  "amdahl info lists the devices");
    for (size_t j = 0; j < i; ++j)
      if (wanted[j] == wanted[i])
        throw Error(Cause::usage, fmt::format("`gpus` names GPU {} twice", wanted[i]), "each GPU once");
  }
  const int needed = launch.multi_process() ? launch.local_rank + 1 : max_devices;
  if (static_cast<int>(wanted.size()) < needed)
    throw Error(Cause::environment_missing,
                fmt::format("{} CUDA devices are needed and {} are here", needed, wanted.size()),
                "fewer `devices`, or `backend=cpu` for virtual devices");
  if (launch.multi_process()) return {wanted[static_cast<size_t>(launch.local_rank)]};
  wanted.resize(static_cast<size_t>(max_devices));
  return wanted;
}

/// Devices without direct access between pairs that the machine file quarantines.
std::vector<std::unique_ptr<Device>> make_safe_devices(const EngineConfig& config, const std::vector<int>& indices,
                                                       const std::vector<double>& sm_shares = {}) {
  std::vector<std::unique_ptr<Device>> devices = make_cuda_devices(indices, sm_shares);
  for (const LinkSpec& link : config.machine.links)
    for (const auto& device : devices) {
      if (link.quarantine.empty()) continue;
      const std::string why = fmt::format("the path from GPU {} to GPU {} is quarantined: {}", link.source,
                                          link.destination, link.quarantine);
      // The kernel or copy engine of either device may move the data.
      if (device->spec().index == link.source) device->avoid(link.destination, why);
      if (device->spec().index == link.destination) device->avoid(link.source, why);
    }
  return devices;
}

}  // namespace

std::vector<LinkDevice> make_cuda_link_devices(const EngineConfig& config, int count) {
  std::vector<LinkDevice> devices;
  for (auto& device : make_cuda_devices(pick_devices(config, {}, count))) {
    auto transfer = make_cuda_transfer(*device);
    devices.push_back({std::move(device), std::move(transfer)});
  }
  return devices;
}

std::unique_ptr<Fleet> make_cuda_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                       FleetNeeds needs) {
  const LaunchContext launch = detect_launch(config.environment);
  if (launch.multi_process()) require_world(launch, max_devices);
  FleetParts parts;
  parts.device_kind = "cuda";
  parts.on_failure = leave_failure;
  parts.devices =
      make_safe_devices(config, pick_devices(config, launch, max_devices), device_speeds(config, launch, max_devices));
  parts.needs = needs;
  parts.make_ops = [options = OpsOptions{config.math, config.deterministic}](Device& device) {
    return make_cuda_ops(device, options);
  };
  const double timeout = config.timeout_seconds;
  const std::optional<SymmetricOptions> symmetric = symmetric_options(config, parts.device_kind);
  if (symmetric && launch.multi_process())
    throw Error(Cause::usage, fmt::format("`comm={}` between GPUs of several processes", config.comm),
                "one process that drives all GPUs, or `comm=auto`");
  if (!launch.multi_process())
    return make_thread_fleet(std::move(parts), [timeout, symmetric](const std::vector<Device*>& devices) {
      if (!symmetric) return make_nccl_communicators(devices, timeout);
      return make_symmetric_communicators(devices, make_inproc_communicators(static_cast<int>(devices.size()), timeout),
                                          timeout, *symmetric);
    });
  return make_process_fleet(
      std::move(parts), launch, join_job(launch, config, facts),
      [timeout](RendezvousStore& rendezvous, const std::string& name, int rank, int world_size, Device& device) {
        return make_nccl_communicator(rendezvous, name, RankGroup::first(world_size, rank), device, timeout);
      },
      config);
}

std::unique_ptr<Fleet> make_partition_fleet(const EngineConfig& config, int count) {
  const int gpu = pick_devices(config, {}, 1).front();
  FleetParts parts;
  parts.device_kind = "cuda";
  parts.on_failure = leave_failure;
  parts.needs = FleetNeeds::devices;
  parts.devices = make_equal_partitions(gpu, count);
  parts.make_ops = [options = OpsOptions{config.math, config.deterministic}](Device& device) {
    return make_cuda_ops(device, options);
  };
  const double timeout = config.timeout_seconds;
  return make_thread_fleet(std::move(parts), [timeout](const std::vector<Device*>& devices) {
    return make_inproc_communicators(static_cast<int>(devices.size()), timeout);
  });
}

std::unique_ptr<Fleet> make_heterogeneous_fleet(const EngineConfig& config, const HeterogeneousDevices& wanted) {
  FleetParts parts;
  parts.device_kind = "cuda";
  parts.on_failure = leave_failure;
  parts.needs = FleetNeeds::devices;
  parts.devices = make_safe_devices(config, pick_devices(config, {}, wanted.num_gpus), wanted.sm_shares);
  parts.make_ops = [options = OpsOptions{config.math, config.deterministic}](Device& device) {
    return make_model_ops(device, options);
  };
  const double timeout = config.timeout_seconds;
  if (!wanted.cpu_share)
    return make_thread_fleet(std::move(parts), [timeout](const std::vector<Device*>& devices) {
      return make_nccl_communicators(devices, timeout);
    });
  int next_index = 0;  // recorded index, after those of the GPUs
  for (const auto& device : parts.devices) next_index = std::max(next_index, device->spec().index + 1);
  parts.devices.push_back(std::move(make_cpu_devices(1, next_index).front()));
  return make_thread_fleet(std::move(parts), [timeout](const std::vector<Device*>& devices) {
    return make_inproc_communicators(static_cast<int>(devices.size()), timeout);
  });
}

}  // namespace amdahl

#include "setup/backends.h"

#include <fmt/format.h>

#include "comm/world.h"
#include "device/device.h"
#include "ops/ops.h"

namespace amdahl {

namespace {

Availability always() { return {true, {}, {}}; }

}  // namespace

const std::vector<BackendRow>& backend_table() {
  static const std::vector<BackendRow> rows{
      {"cuda", cuda_availability, cuda_availability, make_cuda_fleet, make_cuda_link_devices},
      {"cpu", always, cpu_ops_availability, make_cpu_fleet, make_cpu_link_devices},
  };
  return rows;
}

const BackendRow& choose_backend(const EngineConfig& config, FleetNeeds needs) {
  if (!config.gpus.empty() && config.backend == "cpu")
    throw Error(Cause::usage, "`gpus` names CUDA devices but the backend is cpu", "drop one of the two options");
  for (const BackendRow& row : backend_table()) {
    const bool wanted = config.backend == row.name || (!config.gpus.empty() && row.name == "cuda");
    if (!wanted && config.backend != "auto") continue;
    const Availability availability = needs == FleetNeeds::math ? row.math_availability() : row.availability();
    if (availability.ok) return row;
    if (wanted)
      throw Error(Cause::environment_missing,
                  fmt::format("backend {} is not available: {}", row.name, availability.reason), availability.remedy);
  }
  if (config.backend != "auto")
    throw Error(Cause::usage, fmt::format("unknown backend '{}'", config.backend),
                choices_hint(config.backend, {"auto", "cpu", "cuda"}));
  throw Error(Cause::environment_missing, "no backend is available", "amdahl info lists the reasons and remedies");
}

std::vector<int64_t> default_device_counts(const EngineConfig& config) {
  const LaunchContext launch = detect_launch(config.environment);
  if (launch.multi_process()) return {1, launch.world_size};
  if (choose_backend(config, FleetNeeds::devices).name != "cuda") return {1, 2};
  const size_t gpus = config.gpus.empty() ? list_cuda_devices().size() : config.gpus.size();
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= static_cast<int64_t>(gpus); n *= 2) counts.push_back(n);
  if (counts.back() != static_cast<int64_t>(gpus)) counts.push_back(static_cast<int64_t>(gpus));
  return counts;
}

void require_launch_mode(Fleet& fleet, LaunchMode mode) {
  if (mode == LaunchMode::eager) return;
  fleet.run(1, [](RankContext& rank) {
    const Feasibility graphs = rank.device.supports_graphs();
    if (!graphs.ok) throw Error(Cause::usage, "launch mode graph: " + graphs.reason, "`launch=eager`");
  });
}

std::unique_ptr<Ops> make_model_ops(Device& device, const OpsOptions& options) {
  return device.backend() == BackendKind::cuda ? make_cuda_ops(device, options) : make_cpu_ops(device, options);
}

std::unique_ptr<SensorOps> make_sensor_ops(Device& device) {
  return device.backend() == BackendKind::cuda ? make_cuda_sensor_ops(device) : make_cpu_sensor_ops(device);
}

std::unique_ptr<Transfer> make_transfer(Device& device) {
  return device.backend() == BackendKind::cuda ? make_cuda_transfer(device) : make_cpu_transfer(device);
}

std::unique_ptr<Fleet> make_fleet(const EngineConfig& config, int max_devices, const JobFacts& facts,
                                  FleetNeeds needs) {
  const BackendRow& row = choose_backend(config, needs);
  JobFacts all = facts;
  all.insert({{"version", version()},
              {"commit", build_commit()},
              {"backend", std::string(row.name)},
              {"transport", config.processes},
              {"comm", config.comm},
              {"launch", std::string(to_string(config.launch))},
              {"math", std::string(to_string(config.math))},
              {"deterministic", config.deterministic ? "yes" : "no"},
              {"seed", std::to_string(config.seed)},
              {"max_devices", std::to_string(max_devices)}});
  return row.make_fleet(config, max_devices, all, needs);
}

std::vector<double> device_speeds(const EngineConfig& config, const LaunchContext& launch, int max_devices) {
  std::vector<double> speeds = config.device_speeds;
  const auto devices = static_cast<size_t>(launch.multi_process() ? launch.world_size : max_devices);
  if (speeds.size() > devices)
    throw Error(Cause::usage, fmt::format("`device_speeds` has {} fractions for {} devices", speeds.size(), devices),
                "one for each device, or fewer");
  speeds.resize(devices, 1.0);
  return launch.multi_process() ? std::vector{speeds[static_cast<size_t>(launch.rank)]} : speeds;
}

}  // namespace amdahl

#include "sensor/verbs/bench_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "amdahl/error.h"
#include "sensor/measure/input.h"
#include "sensor/ops/checks.h"
#include "sensor/verbs/bench_input.h"
#include "setup/backends.h"

namespace amdahl {
namespace {

template <class T>
T choose(const char* option, const std::string& text, const std::vector<T>& choices) {
  std::vector<std::string> names;
  for (const T choice : choices) {
    if (to_string(choice) == text) return choice;
    names.emplace_back(to_string(choice));
  }
  throw Error(Cause::usage, fmt::format("{}: unknown value '{}'", option, printable(text, 40)),
              choices_hint(text, names));
}

void require_name(const char* option, const std::string& text, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), text) == names.end())
    throw Error(Cause::usage, fmt::format("{}: unknown value '{}'", option, printable(text, 40)),
                choices_hint(text, names));
}

void require_within(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("{} to {}", least, most));
}

SensorOperation operation_of(const SensorBenchConfig& config) {
  return choose(
      "`op`", config.op,
      std::vector<SensorOperation>{SensorOperation::fuse, SensorOperation::voxelize, SensorOperation::resample});
}

PointDistribution distribution_of(const SensorBenchConfig& config) {
  return choose(
      "`distribution`", config.distribution,
      std::vector<PointDistribution>{PointDistribution::uniform, PointDistribution::corner, PointDistribution::readme,
                                     PointDistribution::clusters, PointDistribution::scan});
}

constexpr int64_t kMostItems = int64_t{1} << 40;

void check_streams(const SensorBenchConfig& config) {
  constexpr int64_t kMostExtent = int64_t{1} << 31;
  if (config.streams.empty()) throw Error(Cause::usage, "`streams` names no stream", "`streams=30x512,100x64`");
  for (const StreamShape& stream : config.streams) {
    require_within("a length of `streams`", stream.length, 1, kMostExtent);
    require_within("a width of `streams`", stream.width, 1, kMostExtent);
  }
  require_within("`targets`", config.targets, 1, kMostExtent);
  if (config.batch_sizes.empty()) throw Error(Cause::usage, "`batch_sizes` is empty", "`batch_sizes=4`");
  for (const int64_t batch : config.batch_sizes) require_within("`batch_sizes`", batch, 1, kMostItems);
}

/// Generated points are in the grid wherever it is; points of a file keep their coordinates.
VoxelGrid grid_of(const SensorBenchConfig& config) {
  VoxelGrid grid;
  grid.size = config.grid;
  if (config.voxel_size != 0) grid.voxel_size = static_cast<float>(config.voxel_size);
  check_grid(grid);
  return config.cloud ? grid_around(*config.cloud, config.grid, config.voxel_size, input_name(config, true)) : grid;
}

/// The merge method that `merge` names.
std::optional<MergeMethod> named_merge(const SensorBenchConfig& config) {
  for (const MergeMethod method :
       {MergeMethod::collective, MergeMethod::bitmask, MergeMethod::peer, MergeMethod::bytes})
    if (to_string(method) == config.merge) return method;
  return std::nullopt;
}

void check_cloud(const SensorBenchConfig& config) {
  constexpr int64_t kMostFeatures = int64_t{1} << 20;
  if (config.voxel_size < 0 || !std::isfinite(config.voxel_size))
    throw Error(Cause::usage, fmt::format("`voxel_size` is {}", config.voxel_size), "a positive length");
  check_grid(grid_of(config));
  distribution_of(config);
  require_name("`merge`", config.merge, {"auto", "collective", "bitmask", "peer", "bytes", "none", "host"});
  if (config.merge == "host" && config.mode != "hetero")
    throw Error(Cause::usage, fmt::format("`merge=host` with `mode` {}", config.mode), "`mode=hetero`, or `path=host`");
  if (config.voxel_modes.empty()) throw Error(Cause::usage, "`voxel_modes` is empty", "`voxel_modes=count,max`");
  require_within("`features`", config.features, 1, kMostFeatures);
  if (config.points.empty()) throw Error(Cause::usage, "`points` is empty", "`points=500000`");
  for (const int64_t points : config.points) require_within("`points`", points, 0, kMostItems);
  const std::optional<MergeMethod> named = named_merge(config);
  if (!named) return;
  for (const VoxelMode mode : config.voxel_modes) {
    const Feasibility feasible = can_merge(mode, *named);
    if (!feasible.ok)
      throw Error(Cause::usage,
                  fmt::format("`merge` {} with voxel mode {}: {}", config.merge, to_string(mode), feasible.reason),
                  "`merge=auto`, or other `voxel_modes`");
  }
}

/// Jobs of one operation: per device (weak scaling) or for all devices (strong scaling).
std::vector<SensorJob> jobs_of(const SensorBenchConfig& config) {
  SensorJob job;
  job.operation = operation_of(config);
  job.type = config.type;
  job.seed = config.engine.seed;
  job.options.layout = config.layout;
  job.options.deterministic = config.deterministic;
  job.distribution = distribution_of(config);
  std::vector<SensorJob> jobs;
  job.input = input_name(config, job.voxelizes());
  if (!job.voxelizes()) {
    job.tracks = config.tracks;
    job.streams = config.streams;
    if (job.operation == SensorOperation::resample) job.streams.resize(1);
    job.num_targets = config.targets;
    for (const int64_t batch : config.batch_sizes) {
      job.num_items = batch;
      jobs.push_back(job);
    }
    return jobs;
  }
  job.cloud = config.cloud;
  job.grid = grid_of(config);
  for (const int64_t points : config.points)
    for (const VoxelMode mode : config.voxel_modes) {
      job.num_items = points;
      job.options.mode = mode;
      job.num_features = has_values(mode) ? config.features : 0;
      job.type = has_values(mode) ? config.type : DType::f32;  // type of the points
      jobs.push_back(job);
    }
  return jobs;
}

MergeMethod merge_of(const SensorBenchConfig& config, const SensorJob& job, int devices) {
  if (!job.voxelizes() || config.mode != "data" || devices == 1 || config.merge == "none") return MergeMethod::none;
  if (const std::optional<MergeMethod> named = named_merge(config)) return *named;
  // In memory shared by ranks, packing to bytes costs more than adding integers.
  if (choose_backend(config.engine, FleetNeeds::devices).name == "cpu") return best_merge(job.options.mode);
  return best_merge(job.options.mode, num_voxels(job.grid), (job.num_items + devices - 1) / devices, devices);
}

std::vector<int64_t> counts_of(const SensorBenchConfig& config) {
  if (!config.devices.empty()) return config.devices;
  return config.mode == "single" ? std::vector<int64_t>{1} : default_device_counts(config.engine);
}

}  // namespace

void check_sensor_bench(const SensorBenchConfig& config) {
  constexpr int kMost = 1'000'000;
  require_name("`path`", config.path, {"direct", "host"});
  require_name("`cache`", config.cache, {"hot", "cold", "both"});
  require_within("`samples`", config.samples, 2, kMost);
  require_within("`calls`", config.calls, 0, kMost);
  if (config.path == "host" && choose_backend(config.engine, FleetNeeds::devices).name == "cpu")
    throw Error(Cause::usage, "`path=host`: CPU virtual devices are in the host's memory already",
                "GPUs, or no `path`");
  if (config.type != DType::f32 && config.type != DType::bf16 && config.type != DType::f16)
    throw Error(Cause::usage, fmt::format("`type` is {}", to_string(config.type)), "f32, bf16 or f16");
  for (const int64_t count : config.devices) require_within("`devices`", count, 1, 1 << 16);
  for (const std::string& op : sensor_operations(config)) {
    SensorBenchConfig one = config;
    one.op = op;
    if (operation_of(one) == SensorOperation::voxelize)
      check_cloud(one);
    else
      check_streams(one);
  }
}

std::vector<std::string> sensor_operations(const SensorBenchConfig& config) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= config.op.size();) {
    const size_t end = std::min(config.op.find(',', begin), config.op.size());
    names.push_back(config.op.substr(begin, end - begin));
    if (std::count(names.begin(), names.end(), names.back()) > 1)
      throw Error(Cause::usage, fmt::format("`op` names {} twice", printable(names.back(), 40)), "each operation once");
    begin = end + 1;
  }
  return names;
}

std::vector<SensorJob> sensor_jobs(const SensorBenchConfig& config) {
  std::vector<SensorJob> jobs;
  for (const std::string& op : sensor_operations(config)) {
    SensorBenchConfig one = config;
    one.op = op;
    for (SensorJob& job : jobs_of(one)) jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<std::vector<SensorCell>> sensor_cells(const SensorBenchConfig& config) {
  std::vector<std::vector<SensorCell>> groups;
  SensorCell cell;
  cell.mode = config.mode;
  cell.scaling = config.scaling;
  cell.path = config.path;
  for (const SensorJob& job : jobs_of(config))
    for (const bool cold : {false, true}) {
      if (config.cache != "both" && (config.cache == "cold") != cold) continue;
      std::vector<SensorCell>& compared = groups.emplace_back();
      for (const int64_t devices : counts_of(config)) {
        cell.job = job;
        cell.cold = cold;
        cell.devices = static_cast<int>(devices);
        if (config.mode == "data" && config.scaling == Scaling::weak) cell.job.num_items *= devices;
        cell.merge = merge_of(config, cell.job, cell.devices);
        cell.peers_if_reached = config.merge == "auto";
        compared.push_back(cell);
      }
    }
  return groups;
}

void require_room(const Fleet& fleet, const std::vector<SensorJob>& jobs, int devices) {
  double needed = 0;
  for (const SensorJob& job : jobs) needed += static_cast<double>(SensorWorkload::variant_bytes(job, job.num_items));
  // Virtual devices share host memory.
  const int sharers = fleet.device_kind() == "cuda" ? 1 : devices;
  for (const DeviceSpec& device : fleet.devices())
    if (device.memory_bytes > 0 && needed * sharers > static_cast<double>(device.memory_bytes))
      throw Error(Cause::out_of_memory,
                  fmt::format("{} on each of {} devices need {}, and {} has {}",
                              jobs.size() > 1 ? fmt::format("{} tasks", jobs.size()) : workload_text(jobs[0]), devices,
                              format_bytes(needed * sharers), device.name,
                              format_bytes(static_cast<double>(device.memory_bytes))),
                  "a smaller `grid`, fewer `points` or smaller `batch_sizes`");
}

}  // namespace amdahl

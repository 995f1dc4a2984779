#include "sensor/verbs/bench_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "amdahl/error.h"
#include "base/digest.h"
#include "files/whole_file.h"
#include "sensor/files/file_options.h"
#include "sensor/measure/input.h"
#include "sensor/verbs/bench_setup.h"

namespace amdahl {
namespace {

bool holds_streams(const std::string& path) {
  const std::vector<std::string> endings{".npz", ".csv", ".tsv", ".txt"};
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) { return path.ends_with(ending); });
}

bool asks_for(const SensorBenchConfig& config, bool voxelize) {
  for (const std::string& op : sensor_operations(config))
    if ((op == "voxelize") == voxelize) return true;
  return false;
}

void read_cloud(SensorBenchConfig& config, const std::string& path) {
  if (!asks_for(config, true))
    throw Error(Cause::usage, fmt::format("`inputs` {} is a cloud and `op` is {}", path, config.op),
                "`op=voxelize`, or a file of streams (.npz, .csv)");
  if (config.cloud)
    throw Error(Cause::usage, fmt::format("`inputs` {} is a second cloud, and one is voxelized", path), "one cloud");
  config.cloud = std::make_shared<const PointCloud>(load_point_cloud(path, options_for(path, config.file)));
}

void read_tracks(SensorBenchConfig& config, const std::string& path) {
  if (!asks_for(config, false))
    throw Error(Cause::usage, fmt::format("`inputs` {} holds streams and `op` is {}", path, config.op),
                "`op=fuse` or resample, or a cloud (.ply, .bin, .npy)");
  auto all = std::make_shared<std::vector<Trajectories>>();
  if (config.tracks) *all = *config.tracks;
  for (Trajectories& track : load_trajectories(path, options_for(path, config.file))) all->push_back(std::move(track));
  config.tracks = std::move(all);
}

/// For data in memory, the sizes come from the caller.
void require_size(const std::string& name, const char* what, size_t size, int64_t wanted) {
  if (wanted < 0 || size != static_cast<size_t>(wanted))
    throw Error(Cause::usage, fmt::format("{}: {} has {} numbers and its shape {}", name, what, size, wanted),
                "as many as the shape says");
}

void fit_cloud(SensorBenchConfig& config) {
  const PointCloud& cloud = *config.cloud;
  const std::string name = input_name(config, true);
  require_size(name, "points", cloud.points.size(), cloud.num_points * 3);
  require_size(name, "features", cloud.features.size(), cloud.num_points * cloud.num_features);
  if (config.points.empty()) config.points = {cloud.num_points};
  for (const int64_t points : config.points)
    if (points > cloud.num_points)
      throw Error(Cause::usage, fmt::format("`points` is {} and {} has {}", points, name, cloud.num_points),
                  "fewer: the first so many are taken");
  if (config.features > cloud.num_features)
    throw Error(Cause::usage, fmt::format("`features` is {} and {} has {}", config.features, name, cloud.num_features),
                "fewer: the first so many are taken");
  for (const VoxelMode mode : config.voxel_modes)
    if (cloud.num_features == 0 && has_values(mode))
      throw Error(Cause::usage, fmt::format("{} has no features, and voxel mode {} needs them", name, to_string(mode)),
                  "`voxel_modes=count,occupancy,bitmask`");
  if (config.features == 0) config.features = std::max<int64_t>(1, cloud.num_features);
  if (config.distribution != "uniform")
    throw Error(Cause::usage, fmt::format("`distribution` {} with points of {}", config.distribution, name),
                "one of the two");
  if (config.scaling == Scaling::weak && config.mode == "data")
    throw Error(Cause::usage, fmt::format("`scaling=weak` with the points of {}", name), "`scaling=strong`");
}

void fit_tracks(SensorBenchConfig& config) {
  const std::vector<Trajectories>& tracks = *config.tracks;
  const std::string name = input_name(config, false);
  config.streams.clear();
  if (tracks.empty()) throw Error(Cause::usage, fmt::format("{} holds no stream", name), "one at least");
  for (const Trajectories& track : tracks) {
    if (track.batch < 1 || track.length < 1 || track.width < 1)
      throw Error(Cause::usage, fmt::format("{}: stream '{}' is empty", name, track.name), "a sample at least");
    require_size(name, "times", track.times.size(), track.batch * track.length);
    require_size(name, "values", track.values.size(), track.batch * track.length * track.width);
    if (track.batch != tracks.front().batch)
      throw Error(Cause::usage,
                  fmt::format("{}: stream '{}' has {} rows, and '{}' has {}", name, tracks.front().name,
                              tracks.front().batch, track.name, track.batch),
                  "streams with as many rows");
    config.streams.push_back({track.length, track.width});
  }
  for (int64_t row = 0; row < tracks.front().batch; ++row) {
    const TargetWindow window = target_window(tracks, row);
    if (!(window.begin <= window.end))
      throw Error(Cause::usage,
                  fmt::format("{}, row {}: a stream begins at {} and another ends at {}: they share no time", name, row,
                              window.begin, window.end),
                  "streams that were recorded together");
  }
  if (config.batch_sizes.empty()) config.batch_sizes = {tracks.front().batch};
}

/// Shows whether two runs read the same file.
std::string hash_text(const std::string& bytes) {
  Fnv1a digest;
  for (const char byte : bytes) digest.add(static_cast<unsigned char>(byte));
  return digest.text();
}

}  // namespace

SensorBenchConfig with_inputs(const SensorBenchConfig& config) {
  SensorBenchConfig whole = config;
  refuse_options_without_effect(config.inputs, config.file);
  std::error_code error;
  for (const std::string& path : config.inputs) {
    if (std::filesystem::exists(path, error) && std::filesystem::is_other(path, error))
      throw Error(Cause::usage, fmt::format("`inputs` {} is no regular file, and it is read more than once", path),
                  "a file of what is in it");
    holds_streams(path) ? read_tracks(whole, path) : read_cloud(whole, path);
  }
  if (whole.cloud) fit_cloud(whole);
  if (whole.tracks) fit_tracks(whole);
  const bool any = whole.cloud || whole.tracks;
  if (any && asks_for(whole, true) && !whole.cloud)
    throw Error(Cause::usage, "`op` names voxelize and no `inputs` is a cloud", "a .ply, .bin or .npy file as well");
  if (any && asks_for(whole, false) && !whole.tracks)
    throw Error(Cause::usage, fmt::format("`op` is {} and no `inputs` holds streams", whole.op),
                "a .npz or .csv file as well");
  if (whole.points.empty()) whole.points = {500'000};
  if (whole.batch_sizes.empty()) whole.batch_sizes = {4};
  if (whole.features == 0) whole.features = 8;
  return whole;
}

void tell_about_inputs(const SensorBenchConfig& config, Observer& observer) {
  if (config.cloud)
    for (const std::string& warning : config.cloud->warnings) observer.warning(named(warning));
  if (config.tracks)
    for (const Trajectories& track : *config.tracks)
      for (const std::string& warning : track.warnings) observer.warning(named(warning));
}

std::string input_name(const SensorBenchConfig& config, bool of_cloud) {
  if (of_cloud ? !config.cloud : !config.tracks) return {};
  std::string names;
  for (const std::string& path : config.inputs)
    if (holds_streams(path) != of_cloud)
      names += (names.empty() ? "" : "+") + std::filesystem::path(path).filename().string();
  return names.empty() ? "memory" : names;
}

std::map<std::string, std::string> input_facts(const SensorBenchConfig& config) {
  std::map<std::string, std::string> facts;
  for (size_t i = 0; i < config.inputs.size(); ++i) {
    const std::string key = fmt::format("input.{}", i),
                      bytes = read_file(config.inputs[i], Cause::usage, kMostDataBytes);
    facts[key] = std::filesystem::path(config.inputs[i]).filename().string();
    facts[key + ".bytes"] = std::to_string(bytes.size());
    facts[key + ".fnv1a"] = hash_text(bytes);
  }
  return facts;
}

}  // namespace amdahl

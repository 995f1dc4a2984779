// Converts the JSON of RoboCache's single-GPU and multi-GPU benchmarks to Records of kind "sensor".
//
// The files do not describe the workload, but both scripts measure one fixed job: fusing, on each GPU, 4 rows of
// streams 30x512, 100x64 and 200x12 at 50 target times in bf16, and voxelizing 500,000 points on each GPU into 128^3.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "spec/peer_json.h"

namespace amdahl {
namespace {

using nlohmann::json;
using Axes = std::map<std::string, AxisValue>;

constexpr int64_t kRows = 4, kPoints = 500'000;  // per GPU
constexpr const char* kStreams = "30x512+100x64+200x12->50";
constexpr const char* kGrid = "128x128x128";
constexpr const char* kVoxelModes[] = {"count", "occupancy", "mean", "max"};
constexpr const char* kMultiMode = "occupancy";  // the mode that the multi-GPU script measures
constexpr double kUsPerMs = 1000;
constexpr const char* kLeftOut[] = {"memory_bandwidth", "communication_overhead"};
constexpr const char* kRoboCacheRemedy =
    "the JSON of benchmark_single_gpu.py or benchmark_multi_gpu.py, written to the end";

struct Devices {
  std::vector<std::string> names;
  int64_t count() const { return static_cast<int64_t>(names.size()); }
};

Devices devices_of(const Fields& document) {
  if (!document.has("world_size")) return {{document.text("device_name")}};
  Devices devices{document.texts("devices")};
  const int64_t world = document.integer("world_size");
  if (world < 1 || world != devices.count())
    document.fail("world_size", fmt::format("is {} with {} devices", world, devices.count()), kRoboCacheRemedy);
  return devices;
}

Provenance provenance_of(const Fields& document, const Devices& devices) {
  Provenance p;
  p.tool_version = fmt::format("RoboCache ({} GPU{})", devices.count(), devices.count() == 1 ? "" : "s");
  p.host = "unknown";  // not in the file
  p.device_kind = "cuda";
  p.facts = {{"tool", "robocache"}, {"architecture", document.text("architecture")}};
  for (size_t i = 0; i < devices.names.size(); ++i) p.facts[fmt::format("device.{}", i)] = devices.names[i];
  return p;
}

Axes common_axes(const Devices& devices, int64_t items_each) {
  Axes axes{{"mode", std::string(devices.count() == 1 ? "single" : "data")},
            {"devices", devices.count()},
            {"items", items_each * devices.count()},
            {"launch", std::string("eager")},
            {"cache", std::string("hot")}};
  if (devices.count() > 1) axes["scaling"] = std::string("weak");  // the work per GPU is constant
  return axes;
}

double positive_time(const Fields& fields, const char* name) {
  const double value = fields.number(name);
  if (!(value > 0)) fields.fail(name, fmt::format("is {}", value), kRoboCacheRemedy);
  return value;
}

void add_series(Record& record, const Fields& times, int64_t items, const char* unit) {
  const double mean_us = positive_time(times, "mean_latency_ms") * kUsPerMs;
  record.series = {{"time", "us", {mean_us}},
                   {"time_p50", "us", {positive_time(times, "p50_latency_ms") * kUsPerMs}},
                   {"time_p99", "us", {positive_time(times, "p99_latency_ms") * kUsPerMs}},
                   {"throughput", unit, {static_cast<double>(items) / mean_us * 1e6}}};
}

Record fusion(const Fields& document, const Devices& devices, const Provenance& provenance, const std::string& origin) {
  Record record{"sensor", common_axes(devices, kRows), {}, Origin::measured, {}, provenance, {}};
  record.source = origin + ": multimodal_fusion";
  const int64_t rows = kRows * devices.count();
  record.axes["op"] = std::string("fuse");
  record.axes["dtype"] = std::string("bf16");
  record.axes["batch"] = rows;
  record.axes["workload"] = fmt::format("b{} {}", rows, kStreams);
  add_series(record, document.object("multimodal_fusion"), rows, "batches/s");
  return record;
}

Record voxels(const Fields& times, const std::string& mode, const Devices& devices, const Provenance& provenance) {
  Record record{"sensor", common_axes(devices, kPoints), {}, Origin::measured, {}, provenance, {}};
  const int64_t points = kPoints * devices.count();
  record.axes["op"] = std::string("voxelize");
  record.axes["dtype"] = std::string("f32");
  record.axes["points"] = points;
  record.axes["voxel_mode"] = mode;
  record.axes["workload"] = fmt::format("p{} {}{}", points, kGrid, mode == "mean" || mode == "max" ? " f8" : "");
  add_series(record, times, points, "points/s");
  return record;
}

void add_voxels(const Fields& document, const Devices& devices, const Provenance& provenance, const std::string& origin,
                Measurements& found) {
  const Fields modes = document.object("voxelization");
  if (document.has("world_size")) {
    found.records.push_back(voxels(modes, kMultiMode, devices, provenance));
    found.records.back().source = origin + ": voxelization";
    return;
  }
  for (const auto& [mode, times] : modes.value().items()) {
    if (std::find(std::begin(kVoxelModes), std::end(kVoxelModes), mode) == std::end(kVoxelModes))
      modes.fail(mode.c_str(), "is a mode that is not known here", fmt::format("{}", fmt::join(kVoxelModes, ", ")));
    found.records.push_back(voxels(modes.object(mode.c_str()), mode, devices, provenance));
    found.records.back().source = fmt::format("{}: voxelization.{}", origin, mode);
  }
}

}  // namespace

Measurements read_robocache(const Fields& document, const std::string& origin) {
  const Devices devices = devices_of(document);
  const Provenance provenance = provenance_of(document, devices);
  Measurements found{"sensor", provenance.tool_version, {}, {}, true};
  found.records.push_back(fusion(document, devices, provenance, origin));
  add_voxels(document, devices, provenance, origin, found);
  found.notes.push_back(
      fmt::format("{}: times are means of calls that the host timed one by one, launch and synchronization included; "
                  "its throughput "
                  "figures are not used (they count a call of one GPU as one, of several as all their rows)",
                  origin));
  if (devices.count() > 1)
    found.notes.push_back(fmt::format(
        "{}: fusing on several GPUs includes a sum of different rows over the GPUs, which ours does not do", origin));
  for (const char* name : kLeftOut)
    if (document.has(name))
      found.notes.push_back(fmt::format("{}: '{}' was left out: no sensor operation", origin, name));
  return found;
}

}  // namespace amdahl

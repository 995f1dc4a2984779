// Records of kind "sensor" as `amdahl sensor bench` writes them, with made-up but fixed times.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "base/philox.h"

namespace amdahl::test {

inline constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";
inline constexpr const char* kA100 = "NVIDIA A100-SXM4-80GB";

struct FakeSensor {
  std::vector<std::string> devices{kH100};
  double time_us = 100;
  int64_t items = 4;
  std::string mode = "single";
  std::string scaling{};  // empty: none
  std::string op = "fuse";
  std::string voxel_mode{};
  std::string dtype = "f32";
  std::string workload = "b4 30x512+100x64+200x12->50";
  std::string merge = "none";
  std::string launch = "graph";
  std::string cache = "hot";
  std::string unit = "batches/s";
  std::string device_kind = "cuda";
  std::string host = "node-1";
  int num_samples = 5;
  double noise = 0;  // half-width of a uniform spread
  uint64_t stream = 1;
};

inline Record fake_sensor(const FakeSensor& fake) {
  Record r;
  r.kind = "sensor";
  r.axes = {{"op", fake.op},
            {"mode", fake.mode},
            {"devices", static_cast<int64_t>(fake.devices.size())},
            {"dtype", fake.dtype},
            {"workload", fake.workload},
            {"items", fake.items},
            {fake.op == "voxelize" ? "points" : "batch", fake.items},
            {"merge", fake.merge},
            {"path", std::string("direct")},
            {"cache", fake.cache},
            {"launch", fake.launch}};
  if (!fake.scaling.empty()) r.axes["scaling"] = fake.scaling;
  if (!fake.voxel_mode.empty()) r.axes["voxel_mode"] = fake.voxel_mode, r.axes["layout"] = std::string("xyz");
  if (fake.mode == "hetero") r.axes["policy"] = std::string("proportional");
  Series time{"time", "us", {}}, throughput{"throughput", fake.unit, {}};
  for (int i = 0; i < fake.num_samples; ++i) {
    const Philox4 bits = philox(fake.stream, static_cast<uint32_t>(i), 0, 0, 0);
    const double sample = fake.time_us * (1 + fake.noise * (2.0 * (bits.v[0] / 4294967296.0) - 1));
    time.samples.push_back(sample);
    throughput.samples.push_back(static_cast<double>(fake.items) / sample * 1e6);
  }
  Series bandwidth{"bandwidth", "GB/s", {}};
  constexpr double kBytesOfItem = 1e5;
  for (const double rate : throughput.samples) bandwidth.samples.push_back(rate * kBytesOfItem * 1e-9);
  r.series = {time, throughput, bandwidth, {"checked", "1", {static_cast<double>(fake.items)}}};
  Provenance& p = r.provenance;
  p.tool_version = "0.1.0";
  p.commit = "abc1234";
  p.command_line = "amdahl sensor bench";
  p.start_time = "2026-01-02T03:04:05Z";
  p.host = fake.host;
  p.device_kind = fake.device_kind;
  p.seed = 42;
  for (size_t i = 0; i < fake.devices.size(); ++i) {
    p.facts["device." + std::to_string(i)] = fake.devices[i];
    p.facts["device." + std::to_string(i) + ".uuid"] = "GPU-" + std::to_string(i);
  }
  return r;
}

/// As files of before this was told from their facts hold it: device 1 of a run in mode hetero has 32 of 132
/// multiprocessors, and the record says that it was measured.
inline Record fake_limited(FakeSensor fake, const std::string& policy) {
  fake.devices = {kH100, kH100}, fake.mode = "hetero";
  Record r = fake_sensor(fake);
  r.axes["policy"] = policy;
  r.provenance.facts.insert({{"device.0.sm_count", "132"}, {"device.1.sm_count", "32"}, {"held_back.1", "0.25"}});
  return r;
}
inline constexpr const char* kLimitedH100 = "NVIDIA H100 80GB HBM3, 32 of 132 SMs, emulated";

inline FakeSensor fake_voxels(FakeSensor fake) {
  fake.op = "voxelize";
  fake.voxel_mode = "mean";
  fake.workload = "p500000 128x128x128 f8";
  fake.unit = "points/s";
  fake.items *= 125'000;
  return fake;
}

/// What the files tests/cli/fixtures/sensor_*.json hold, by name: two workloads on one and two H100, one and two A100,
/// and one of each.
inline std::vector<std::pair<std::string, std::vector<Record>>> sensor_fixtures() {
  struct Row {
    const char* file;
    FakeSensor fuse;
    double voxelize_us;
  };
  const std::vector<std::string> two_h100{kH100, kH100}, two_a100{kA100, kA100}, both{kH100, kA100};
  const Row rows[] = {
      {"h100", {}, 400},
      {"a100", {.devices = {kA100}, .time_us = 160}, 700},
      {"2xh100", {.devices = two_h100, .time_us = 60, .mode = "data", .scaling = "strong", .merge = "peer"}, 390},
      {"2xa100", {.devices = two_a100, .time_us = 88, .mode = "data", .scaling = "strong", .merge = "peer"}, 640},
      {"hetero", {.devices = both, .time_us = 70, .mode = "hetero", .merge = "collective"}, 450}};
  std::vector<std::pair<std::string, std::vector<Record>>> files;
  uint64_t stream = 1;
  for (const Row& row : rows) {
    FakeSensor fuse = row.fuse, voxels = fake_voxels(row.fuse);
    voxels.time_us = row.voxelize_us;
    for (FakeSensor* fake : {&fuse, &voxels}) {
      fake->noise = 0.02;
      fake->num_samples = 10;
      fake->stream = ++stream;
    }
    files.push_back({row.file, {fake_sensor(fuse), fake_sensor(voxels)}});
  }
  return files;
}

}  // namespace amdahl::test

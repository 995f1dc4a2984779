// Benchmark of the operations of amdahl/sensor.h on one or several devices, in every mode of distributing the work,
// with verified results. Plain data.
//
// Example: voxelization of generated points on one and two virtual devices.
//   amdahl::SensorBenchConfig config;
//   config.engine.backend = "cpu";
//   config.mode = "data", config.devices = {1, 2};
//   amdahl::Observer quiet;  // of amdahl/amdahl.h
//   std::puts(to_text(amdahl::run_sensor_bench(config, quiet)).c_str());
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/engine.h"
#include "amdahl/record.h"
#include "amdahl/sensor.h"
#include "amdahl/sensor_files.h"

namespace amdahl {

class Observer;

/// Shape of one stream: S samples of D values.
struct StreamShape {
  int64_t length = 0;  // S
  int64_t width = 0;   // D
};

/// An artificially slowed device, which reaches `fraction` of its speed.
struct SmLimit {
  int device = 0;       // index in the fleet
  double fraction = 1;  // in (0, 1]
};

struct SensorBenchConfig {
  EngineConfig engine;
  std::string op = "voxelize";   // fuse, voxelize, resample; in modes task and hetero a list with commas
  std::string mode = "single";   // single, data, task, pipeline, hetero
  std::vector<int64_t> devices;  // device counts; empty: 1 for single, else 1, 2, 4, ... up to the number of GPUs
  Scaling scaling = Scaling::strong;
  DType type = DType::f32;  // of streams and features

  /// Input files instead of generated data: a cloud for voxelize, streams for fuse and resample (formats:
  /// sensor_files.h). They define points, features, streams and shapes. A batch with more rows than the file repeats
  /// its rows from the first one.
  std::vector<std::string> inputs;
  SensorFileOptions file;  // of the inputs that they have an effect on
  /// Input from memory; run_sensor_bench stores the contents of the files here.
  std::shared_ptr<const PointCloud> cloud;
  std::shared_ptr<const std::vector<Trajectories>> tracks;

  // For fuse, and for resample, which uses the first stream only.
  std::vector<int64_t> batch_sizes;  // rows of all devices (strong) or of one (weak); empty: 4, or the whole input
  std::vector<StreamShape> streams{{30, 512}, {100, 64}, {200, 12}};
  int64_t targets = 50;  // target times per row

  // For voxelize.
  /// Points of all devices (strong) or of one (weak), of an input its first ones; empty: 500,000, or the whole input.
  std::vector<int64_t> points;
  std::array<int64_t, 3> grid{128, 128, 128};
  double voxel_size = 0;  // 0: 0.1, or the smallest for which the grid, centred on the input, contains all of it
  int64_t features = 0;   // 0: 8, or all features of the input
  std::vector<VoxelMode> voxel_modes{VoxelMode::count, VoxelMode::occupancy, VoxelMode::mean, VoxelMode::max};
  VoxelLayout layout = VoxelLayout::xyz;
  bool deterministic = false;  // mean in fixed point
  /// Distribution of the points. uniform: over the whole grid. corner: over half of each axis. readme: as in
  /// RoboCache's README, with 3.28 % of the points in the grid. clusters: as seen by a spinning LiDAR, denser near the
  /// sensor. scan: the points of clusters in the order of the LiDAR's scan.
  std::string distribution = "uniform";
  std::string merge = "auto";  // how grids are merged: auto, collective, bitmask, peer, bytes, none, host

  // For mode hetero.
  std::vector<SmLimit> limit_sms;
  bool cpu_share = false;             // adds a CPU virtual device to the GPUs, as the last of the fleet
  std::vector<std::string> policies;  // empty: all that the operations support

  std::string model = "medium";  // mode pipeline: preset or file of the model trained on fused batches

  std::string path = "direct";  // direct; host: devices do not access each other's memory
  std::string cache = "hot";    // whether the buffers of a call are in the last-level cache: hot, cold, both
  int samples = 30;
  int calls = 0;           // per sample; 0: 20 on GPUs; 4 on virtual devices, more when they take less than 1 ms
  FreshProcesses repeat;   // every process makes the whole measurement
  std::string output_dir;  // run folder; empty: none is written
};

struct SensorBenchOutcome {
  std::vector<Record> records;  // kind "sensor"
  std::string run_dir;
  bool failed = false;  // a result was wrong, or data did not fit into memory
  bool is_root = true;
};
/// Tables for a terminal.
AMDAHL_API std::string to_text(const SensorBenchOutcome& outcome, int width = 0);
/// JSON, schema docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const SensorBenchOutcome& outcome);

/// Runs the benchmark; writes records.jsonl and report.txt into `output_dir` unless it is empty. Before anything is
/// allocated, Error{usage} for invalid or contradictory options and unreadable input files. Not thread-safe: one
/// measurement at a time per process.
AMDAHL_API SensorBenchOutcome run_sensor_bench(const SensorBenchConfig& config, Observer& observer);

}  // namespace amdahl

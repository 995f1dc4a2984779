// Robotics preprocessing under measurement: the operations of amdahl/sensor.h on one or several devices, in every mode
// of sharing the work, each result verified.
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

/// Shape of one stream of a fusion: S samples of D values.
struct StreamShape {
  int64_t length = 0;  // S
  int64_t width = 0;   // D
};

/// A device slowed down on purpose: it does `fraction` of its speed.
struct HeldBackDevice {
  int device = 0;  // by its place in the fleet
  double fraction = 1;
};

struct SensorBenchConfig {
  EngineConfig engine;
  std::string op = "voxelize";   // fuse, voxelize, resample; several with commas in modes task and hetero
  std::string mode = "single";   // single, data, task, pipeline, hetero
  std::vector<int64_t> devices;  // counts; empty: 1 for single, else 1, 2, 4, ... as far as there are GPUs
  Scaling scaling = Scaling::strong;
  DType type = DType::f32;  // of streams and features

  /// Files instead of generated data: a cloud for voxelize, streams for fuse and resample (formats: sensor_files.h).
  /// Points and features are then those of the file, streams and their shapes too; rows are taken again from the first
  /// where a batch has more.
  std::vector<std::string> inputs;
  /// The same from memory; run_sensor_bench puts here what the files hold.
  std::shared_ptr<const PointCloud> cloud;
  std::shared_ptr<const std::vector<Trajectories>> tracks;

  // fuse, and resample with the first stream only
  std::vector<int64_t> batch_sizes;  // rows of all devices (strong) or of one (weak); empty: 4, or all of the input
  std::vector<StreamShape> streams{{30, 512}, {100, 64}, {200, 12}};
  int64_t targets = 50;

  // voxelize
  /// Of all devices (strong) or of one (weak); empty: 500,000, or all of the input. Of an input the first so many.
  std::vector<int64_t> points;
  std::array<int64_t, 3> grid{128, 128, 128};
  double voxel_size = 0;  // 0: 0.1; or the least with which the grid holds all of the input. Its grid is centred on it
  int64_t features = 0;   // 0: 8, or all of the input
  std::vector<VoxelMode> voxel_modes{VoxelMode::count, VoxelMode::occupancy, VoxelMode::mean, VoxelMode::max};
  VoxelLayout layout = VoxelLayout::xyz;
  bool deterministic = false;  // mean in fixed point
  /// Where points lie. uniform: the whole grid. corner: half of each axis. readme: RoboCache's README, 3.28 % of the
  /// points in the grid. clusters: as a spinning LiDAR sees a scene, denser near the sensor. scan: the same in the
  /// order in which it gives them.
  std::string distribution = "uniform";
  std::string merge = "auto";  // auto, collective, bitmask, peer, bytes, none, host: how grids become one

  // hetero
  std::vector<HeldBackDevice> hold_back;
  bool cpu_share = false;             // a CPU virtual device beside the GPUs, the last of the fleet
  std::vector<std::string> policies;  // empty: all that the operations allow

  std::string model = "medium";  // pipeline: preset or file of the model that is trained on fused batches

  std::string path = "direct";  // direct, host: devices do not reach each other's memory
  std::string cache = "hot";    // hot, cold, both: whether a call finds its buffers in the last-level cache
  int samples = 30;
  int calls = 0;           // of a sample; 0: 20 on GPUs; 4 on virtual devices, more where they take less than 1 ms
  FreshProcesses repeat;   // each measures all of it
  std::string output_dir;  // run folder; empty: none is written
};

struct SensorBenchOutcome {
  std::vector<Record> records;  // kind "sensor"
  std::string run_dir;
  bool failed = false;  // a result was wrong, or something did not fit
  bool is_root = true;
};
/// Tables for a terminal.
AMDAHL_API std::string to_text(const SensorBenchOutcome& outcome);
/// docs/schema/records.schema.json.
AMDAHL_API std::string to_json(const SensorBenchOutcome& outcome);

/// Measures into `output_dir` (records.jsonl, report.txt) when it is not empty. Error{usage} for what cannot be, before
/// anything is allocated.
AMDAHL_API SensorBenchOutcome run_sensor_bench(const SensorBenchConfig& config, Observer& observer);

}  // namespace amdahl

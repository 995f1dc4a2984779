// Robotics preprocessing: fusion of sensor streams at common times, voxelization of point clouds, resampling of
// trajectories. `Preprocessor` computes on tensors of the caller, the verbs on files; a benchmark runs the operations
// on one or several devices in every mode of distributing the work, with verified results. docs/robotics.md has all
// rules.
//
// Example: one trajectory of two samples, resampled at one time.
//   using amdahl::DType;
//   const float values[] = {0, 10}, times[] = {0, 1}, target = 0.25f;
//   float result = 0;
//   amdahl::Preprocessor preprocessor = amdahl::Preprocessor::on_host();
//   preprocessor.resample_trajectories({{values, DType::f32, {1, 2, 1}}, {times, DType::f32, {1, 2}}},
//                                      {&target, DType::f32, {1, 1}}, {&result, DType::f32, {1, 1, 1}});
//
// Example: voxelize a cloud.
//   amdahl::VoxelizeConfig config;
//   config.input = "scan.ply", config.voxel_size = 0.1;
//   std::printf("%lld voxels\n", static_cast<long long>(amdahl::run_voxelize(config).num_occupied));
//
// Tensors are dense, row-major and owned by the caller. The functions that read and write files are thread-safe for
// different files.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "amdahl/record.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// Value at a target time outside the times of a stream. `hold`: the first or last sample. `linear`: extrapolation from
/// the two nearest samples, as RoboCache's fusion kernel does. `linear_right`: hold before the first sample, linear
/// after the last one, as RoboCache's resampling kernel does. Both linear rules also use RoboCache's interpolation
/// weight, (t - t0) / (t1 - t0 + 1e-8), at all times.
enum class Extrapolation { hold, linear, linear_right };

enum class VoxelMode { count, occupancy, bitmask, mean, max };
/// Whether the voxels of this mode hold values computed from features.
constexpr bool has_values(VoxelMode mode) { return mode == VoxelMode::mean || mode == VoxelMode::max; }
/// Index of voxel (x, y, z) in a grid [X, Y, Z]. xyz: (x * Y + y) * Z + z. zyx: (z * Y + y) * X + x.
enum class VoxelLayout { xyz, zyx };
/// Treatment of points outside the grid: drop them, or move them to the border.
enum class OutOfBounds { drop, clamp };

AMDAHL_API std::string_view to_string(Extrapolation rule);
AMDAHL_API std::string_view to_string(VoxelMode mode);
AMDAHL_API std::string_view to_string(VoxelLayout layout);

/// Voxel (x, y, z) holds the points p with floor((p - minimum) / voxel_size) = (x, y, z), computed in float.
struct VoxelGrid {
  std::array<float, 3> minimum{-10, -10, -10};
  float voxel_size = 0.1f;                     // edge, in the points' unit
  std::array<int64_t, 3> size{128, 128, 128};  // X, Y, Z: number of voxels
};

/// One sensor: data [B, S, D] in f32, bf16 or f16 with times [B, S] in f32, finite and non-decreasing along S.
struct SensorStream {
  ConstTensor data;
  ConstTensor times;
};

struct FuseOptions {
  Extrapolation extrapolation = Extrapolation::hold;
  bool check_times = true;  // reject unsorted and non-finite times; costs one more read and a synchronization
};

struct VoxelizeOptions {
  VoxelMode mode = VoxelMode::occupancy;
  VoxelLayout layout = VoxelLayout::xyz;
  OutOfBounds bounds = OutOfBounds::drop;
  /// mean: sums in fixed point, bitwise equal for any order of the points and any number of devices. The other modes
  /// are always deterministic.
  bool deterministic = false;
  bool zero_floor = false;     // max: at least 0, as in RoboCache's zero-initialised grid
  bool fast_quotient = false;  // CUDA: RoboCache's approximate division, and a NaN coordinate in voxel 0 of its axis

  /// The behaviour of RoboCache's CUDA kernels.
  static VoxelizeOptions robocache(VoxelMode mode) {
    return {mode, VoxelLayout::zyx, OutOfBounds::drop, false, true, true};
  }
};

/// Drop and NaN counters of the points of a cloud.
struct VoxelizeStats {
  int64_t num_points = 0;
  int64_t num_nan = 0;      // points with a NaN coordinate, which are in no voxel
  int64_t num_outside = 0;  // points outside the grid: dropped, or moved to its border by `clamp`
};

/// Operations on one device, enqueued on one of its streams. A call checks all arguments before it launches a kernel.
/// Error{usage} names an argument with a wrong shape, type, device or value. Error{non_finite} and Error{data_corrupt}
/// give the position of a time that is not finite or decreases. Error{out_of_memory} precedes an allocation that would
/// not fit. On the host, results are complete when a call returns; on a GPU, after `synchronize`. Not thread-safe: one
/// per thread, or external locking.
class AMDAHL_API Preprocessor {
 public:
  /// Computes on the CPU, in one thread.
  static Preprocessor on_host();
  /// Computes on a GPU. `stream`: a cudaStream_t of that GPU that outlives this object; null: a stream of its own.
  /// Error{environment_missing} without CUDA or such a GPU.
  static Preprocessor on_gpu(int index, void* stream = nullptr);
  Preprocessor(Preprocessor&&) noexcept;
  ~Preprocessor();

  /// Interpolates streams [B, S_i, D_i] with times [B, S_i] at target times [B, T] (f32) and concatenates them: output
  /// [B, T, sum of D_i] of the streams' type. With hold, y = a + w * (b - a) with w = (t - t0) / (t1 - t0); every
  /// operation is rounded to float and the result to the output's type, so that CPU and GPU give bitwise equal results.
  void fuse_multimodal(const std::vector<SensorStream>& streams, const ConstTensor& target_times, const Tensor& output,
                       const FuseOptions& options = {});

  /// Interpolates trajectories [B, S, D] with times [B, S] at target times [B, T]: output [B, T, D].
  void resample_trajectories(const SensorStream& trajectory, const ConstTensor& target_times, const Tensor& output,
                             const FuseOptions& options = {});

  /// Voxelizes points [N, 3] (f32). count and occupancy: output i32 [X, Y, Z] ([Z, Y, X] with layout zyx). bitmask:
  /// output u32 [ceil(X * Y * Z / 32)], where voxel i is bit i % 32 of word i / 32. mean and max: features [N, F] (f32,
  /// bf16 or f16), output f32 [X, Y, Z, F], 0 in empty voxels. N = 0 gives an empty grid. Waits for the counters that
  /// it returns.
  VoxelizeStats voxelize_pointcloud(const ConstTensor& points, const ConstTensor& features, const VoxelGrid& grid,
                                    const Tensor& output, const VoxelizeOptions& options = {});

  /// Waits for all enqueued operations.
  void synchronize();

 private:
  struct State;
  explicit Preprocessor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What the name and the content of a file do not say. An option that has no effect on a file is Error{usage}.
struct SensorFileOptions {
  int64_t bin_columns = 0;                  // .bin: numbers of a point; 0: 4, or as many as the name says
  std::string bin_type;                     // .bin: f32 or f64; empty: f32
  std::string time_column;                  // table: name of the column of times; empty: found by its name
  char delimiter = 0;                       // table: 0: detected
  std::string header = "auto";              // table: whether the first line names the columns: auto, yes, no
  std::string missing = "refuse";           // table: a sample with a missing value: refuse, drop
  std::vector<std::string> missing_values;  // table: further texts that mark a missing value
};

/// Points of one scan. NaN and infinite coordinates are kept; VoxelizeStats counts them.
struct PointCloud {
  std::vector<float> points;    // [N, 3]: x y z
  std::vector<float> features;  // [N, F]
  int64_t num_points = 0;       // N
  int64_t num_features = 0;     // F
  std::vector<std::string> feature_names;
  /// "KITTI", "nuScenes", "bin", "npy", "PLY ascii", "PLY binary_little_endian", "PLY binary_big_endian".
  std::string format;
  double rounding = 0;  // largest rounding error of a coordinate converted to float, in the points' unit
  std::vector<std::string> warnings = {};          // what the reader decided and may be wrong
  std::vector<std::string> feature_warnings = {};  // what features lost by becoming floats
};

/// Reads a point cloud. The file extension selects the format:
/// .bin  little-endian float: KITTI, N x (x, y, z, intensity), or nuScenes, N x (x, y, z, intensity, ring), whose names
///       end in .pcd.bin; other numbers of columns and double by the options. Content that looks like another layout is
///       Error{data_corrupt};
/// .npy  [N, 3 + F] of floating-point numbers or integers, either byte order, C or Fortran order;
/// .ply  ascii or binary: x, y and z of `vertex`, its other scalar properties as features; lists and other elements are
///       skipped.
/// Error{usage} for a file that cannot be read and an unknown extension; Error{data_corrupt} with the line or byte for
/// a truncated or malformed file.
AMDAHL_API PointCloud load_point_cloud(const std::string& path, const SensorFileOptions& options = {});

/// One stream: values [B, S, D] at times [B, S], finite and non-decreasing along S.
struct Trajectories {
  std::string name;    // of the stream; empty when the file has only one
  int64_t batch = 0;   // B
  int64_t length = 0;  // S
  int64_t width = 0;   // D
  std::vector<double> times;
  std::vector<float> values;
  std::vector<std::string> names;          // of the D values, when the file has names
  std::vector<std::string> skipped;        // names of columns without numbers, which are not read
  std::string time_name = {};              // name of the column of times, of a table
  std::vector<std::string> warnings = {};  // what the reader decided and may be wrong, and what values lost
};

/// Reads the streams of a file. The file extension selects the format:
/// .npz  `times` [S] or [B, S] with `values` or `data` [S], [S, D] or [B, S, D]; for several streams, NAME_times with
///       NAME, in the order of the file. Arrays of at most one dimension without times are ignored.
/// .csv  (also .tsv, .txt) a table of one row per sample. The time is the column of that name, whatever unit the name
///       has beside it; the first one without a header. Every other column of numbers is a value. A column named batch,
///       trajectory or episode assigns a row to one of B trajectories of equal length.
/// Errors as load_point_cloud; Error{environment_missing} for .npz in a build without libzip.
AMDAHL_API std::vector<Trajectories> load_trajectories(const std::string& path, const SensorFileOptions& options = {});

/// A dense, row-major, little-endian array of the caller.
struct FileArray {
  std::string name;  // in a .npz file
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// Writes a .npy file atomically. Error{usage} when the path cannot be written or has another extension;
/// Error{disk_full}.
AMDAHL_API void save_array(const std::string& path, const FileArray& array);
/// Writes an uncompressed .npz file. Errors as save_array; Error{environment_missing} in a build without libzip.
AMDAHL_API void save_arrays(const std::string& path, const std::vector<FileArray>& arrays);

/// Device of the verbs below.
struct SensorPlace {
  std::string backend = "auto";  // cpu, cuda; auto: cuda when there is a GPU
  int gpu = 0;
};

struct VoxelizeConfig {
  std::string input;
  SensorFileOptions file;
  double voxel_size = 0;                         // edge, in the points' unit
  std::optional<std::array<int64_t, 3>> size;    // X, Y, Z; absent: up to the last point
  std::optional<std::array<double, 3>> minimum;  // absent: fitted to the points; with `size`: centred on them
  VoxelizeOptions options;
  SensorPlace place;
  std::string output;  // .npy: the grid; .npz: also its position; empty: none
};

struct VoxelizeOutcome {
  PointCloud cloud;
  VoxelizeStats stats;
  VoxelGrid grid;
  bool fitted_minimum = false, fitted_size = false;  // computed from the points
  VoxelMode mode = VoxelMode::occupancy;
  std::vector<int64_t> shape;  // of the output
  int64_t num_occupied = 0;    // non-empty voxels
  int64_t max_per_voxel = 0;   // largest number of points in a voxel
  std::string device;          // device that computed
  std::vector<std::string> warnings;
};
AMDAHL_API std::string to_text(const VoxelizeOutcome& outcome);
AMDAHL_API std::string to_json(const VoxelizeOutcome& outcome);

/// Reads a cloud, voxelizes it and writes the grid. Errors as load_point_cloud, Preprocessor and save_array.
AMDAHL_API VoxelizeOutcome run_voxelize(const VoxelizeConfig& config);

/// Target times of each row of the batch: from its first to its last time; with several streams, the interval in which
/// all of them have samples.
struct TimelineConfig {
  std::string input;
  SensorFileOptions file;
  std::string stream;                // resample: name of the stream, when the file has several
  std::optional<double> rate_hz;     // targets per unit of time; shorter rows get targets beyond their end
  int64_t num_targets = 0;           // instead of rate_hz: number of evenly spaced targets
  std::optional<double> begin, end;  // replace the first and last time of every row
  Extrapolation extrapolation = Extrapolation::hold;
  SensorPlace place;
  std::string output;  // .npy: values; .npz: times and values; empty: none
};

struct TimelineOutcome {
  std::vector<Trajectories> streams;  // times and values are empty
  std::vector<int64_t> shape;         // of the output: [B, T, D]
  double origin = 0;                  // earliest time of all streams; times are computed as floats relative to it
  double first = 0, last = 0;         // first and last target time
  int64_t num_outside = 0;            // pairs of stream and target where the target is outside the stream's times
  std::string device;                 // device that computed
  std::vector<std::string> warnings;
};
AMDAHL_API std::string to_text(const TimelineOutcome& outcome);
AMDAHL_API std::string to_json(const TimelineOutcome& outcome);

/// Resamples one stream at the target times. Errors as load_trajectories, Preprocessor and save_array, and Error{usage}
/// for an unknown or ambiguous stream, targets out of range and rows without a common time interval.
AMDAHL_API TimelineOutcome run_resample(const TimelineConfig& config);
/// Resamples all streams of a file at common target times and concatenates their values. Errors as run_resample, and
/// Error{usage} for streams with different batch sizes.
AMDAHL_API TimelineOutcome run_fuse(const TimelineConfig& config);

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

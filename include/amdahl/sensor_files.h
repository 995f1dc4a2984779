// Files of point clouds, trajectories and arrays, and the verbs of `amdahl sensor`. Plain data. The functions that read
// and write files are thread-safe for different files.
//
// Example: voxelize a cloud.
//   amdahl::VoxelizeConfig config;
//   config.input = "scan.ply", config.voxel_size = 0.1;
//   std::printf("%lld voxels\n", static_cast<long long>(amdahl::run_voxelize(config).num_occupied));
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/sensor.h"

namespace amdahl {

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

}  // namespace amdahl

// Point clouds, trajectories and arrays in files, and what `amdahl sensor` does with them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/sensor.h"

namespace amdahl {

/// Points of one scan. NaN and infinite coordinates are kept: who uses the points counts them.
struct PointCloud {
  std::vector<float> points;    // [N, 3]: x y z
  std::vector<float> features;  // [N, F]
  int64_t num_points = 0;       // N
  int64_t num_features = 0;     // F
  std::vector<std::string> feature_names;
  std::string format;   // "KITTI", "npy", "PLY ascii", "PLY binary_little_endian", "PLY binary_big_endian"
  double rounding = 0;  // largest change of a coordinate by becoming a float, in the points' unit
};

/// Reads a point cloud; the name's ending says of which format:
/// .bin  KITTI: N x (x, y, z, intensity), little-endian float;
/// .npy  [N, 3 + F] of floating-point or whole numbers, either byte order, C or Fortran order;
/// .ply  ascii or binary: x, y and z of `vertex`, its other scalar properties as features; lists and other elements are
///       skipped.
/// Error{usage} for a file that cannot be read or an ending that is not known; Error{data_corrupt} with the line or the
/// byte for a file that is cut off or not what it claims to be.
AMDAHL_API PointCloud load_point_cloud(const std::string& path);

/// Streams of values [B, S, D] at times [B, S], finite and not falling along S.
struct Trajectories {
  std::string name;    // of the stream; empty when the file has one
  int64_t batch = 0;   // B
  int64_t length = 0;  // S
  int64_t width = 0;   // D
  std::vector<double> times;
  std::vector<float> values;
  std::vector<std::string> names;    // of the D values, where the file has them
  std::vector<std::string> skipped;  // columns of words, which were left out
};

/// Reads the streams of a file; the name's ending says of which format:
/// .npz  `times` [S] or [B, S] with `values` or `data` [S], [S, D] or [B, S, D]; or, for several streams, NAME_times
/// with
///       NAME, in the order of the file. Arrays of at most one dimension without times are left out.
/// .csv  (also .tsv, .txt) the column named time, t or timestamp, else the first, is the time, every other column of
///       numbers a value; a column named batch, trajectory or episode says which of B equally long parts a row is of.
/// Errors as load_point_cloud; Error{environment_missing} for .npz in a build without libzip.
AMDAHL_API std::vector<Trajectories> load_trajectories(const std::string& path);

/// A dense, row-major array of the caller's, little-endian as this machine is.
struct FileArray {
  std::string name;  // in a .npz file
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// Writes a .npy file, whole or not at all. Error{usage} when the path cannot be written or ends otherwise,
/// Error{disk_full} when there is no room.
AMDAHL_API void save_array(const std::string& path, const FileArray& array);
/// Writes an uncompressed .npz file. Errors as save_array; Error{environment_missing} in a build without libzip.
AMDAHL_API void save_arrays(const std::string& path, const std::vector<FileArray>& arrays);

/// Where the verbs below compute.
struct SensorPlace {
  std::string backend = "auto";  // cpu, cuda, or auto: cuda where there is a GPU
  int gpu = 0;
};

struct VoxelizeConfig {
  std::string input;
  double voxel_size = 0;                         // edge, in the points' unit
  std::optional<std::array<int64_t, 3>> size;    // X, Y, Z; none: up to the last point
  std::optional<std::array<double, 3>> minimum;  // none: around the points; beside a size: centred on them
  VoxelizeOptions options;
  SensorPlace place;
  std::string output;  // .npy: the grid; .npz: also where it lies; empty: none
};

struct VoxelizeOutcome {
  PointCloud cloud;
  VoxelizeStats stats;
  VoxelGrid grid;
  bool fitted_minimum = false, fitted_size = false;
  VoxelMode mode = VoxelMode::occupancy;
  std::vector<int64_t> shape;  // of the output
  int64_t num_occupied = 0;    // voxels with a point
  int64_t max_per_voxel = 0;   // points of the fullest voxel
  std::string device;          // what computed
  std::vector<std::string> warnings;
};
AMDAHL_API std::string to_text(const VoxelizeOutcome& outcome);
AMDAHL_API std::string to_json(const VoxelizeOutcome& outcome);

/// Reads a cloud and makes a grid of it. Errors of load_point_cloud, Preprocessor and save_array.
AMDAHL_API VoxelizeOutcome run_voxelize(const VoxelizeConfig& config);

/// Common target times: of each row of the batch from its first to its last time, or to where all its streams have
/// samples.
struct TimelineConfig {
  std::string input;
  std::string stream;                // resample: which one of several
  std::optional<double> rate_hz;     // targets a unit of time; rows that end before the longest reach past their end
  int64_t num_targets = 0;           // or this many, evenly spaced
  std::optional<double> begin, end;  // times instead of the row's own first and last
  Extrapolation extrapolation = Extrapolation::hold;
  SensorPlace place;
  std::string output;  // .npy: values; .npz: times and values; empty: none
};

struct TimelineOutcome {
  std::vector<Trajectories> streams;  // without their times and values
  std::vector<int64_t> shape;         // of the output: [B, T, D]
  double origin = 0;                  // the earliest time: times are floats counted from it
  double first = 0, last = 0;         // of all target times
  int64_t num_outside = 0;            // pairs of stream and target before its first sample or after its last
  std::string device;
  std::vector<std::string> warnings;
};
AMDAHL_API std::string to_text(const TimelineOutcome& outcome);
AMDAHL_API std::string to_json(const TimelineOutcome& outcome);

/// One stream onto target times.
AMDAHL_API TimelineOutcome run_resample(const TimelineConfig& config);
/// All streams of a file onto common times, side by side.
AMDAHL_API TimelineOutcome run_fuse(const TimelineConfig& config);

}  // namespace amdahl

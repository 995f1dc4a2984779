// Robotics preprocessing on one device: fusion of sensor streams at common times, voxelization of point clouds,
// resampling of trajectories. Tensors are dense, row-major and owned by the caller. docs/robotics.md has all rules.
//
// Example: one trajectory of two samples, resampled at one time.
//   using amdahl::DType;
//   const float values[] = {0, 10}, times[] = {0, 1}, target = 0.25f;
//   float result = 0;
//   amdahl::Preprocessor preprocessor = amdahl::Preprocessor::on_host();
//   preprocessor.resample_trajectories({{values, DType::f32, {1, 2, 1}}, {times, DType::f32, {1, 2}}},
//                                      {&target, DType::f32, {1, 1}}, {&result, DType::f32, {1, 1, 1}});
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/error.h"
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

}  // namespace amdahl

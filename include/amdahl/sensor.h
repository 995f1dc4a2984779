// Robotics preprocessing on one device: sensor streams onto common times, point clouds into voxel grids, trajectories
// onto new times. Tensors are dense, row-major and stay the caller's; see docs/robotics.md for every rule.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// What lies outside the times of a stream. `hold`: its first or last sample. `linear`: the line through the two
/// samples next to it, as RoboCache's fusion kernel does. `linear_right`: hold before, linear after, as its resampling
/// kernel does. The two linear rules also take the original's weight, (t - t0) / (t1 - t0 + 1e-8).
enum class Extrapolation { hold, linear, linear_right };

enum class VoxelMode { count, occupancy, bitmask, mean, max };
/// Whether voxels of this mode hold values of their points' features.
constexpr bool has_values(VoxelMode mode) { return mode == VoxelMode::mean || mode == VoxelMode::max; }
/// Where voxel (x, y, z) of a grid [X, Y, Z] lies: xyz at (x * Y + y) * Z + z, zyx at (z * Y + y) * X + x.
enum class VoxelLayout { xyz, zyx };
/// What happens to points outside the grid.
enum class OutOfBounds { drop, clamp };

AMDAHL_API std::string_view to_string(Extrapolation rule);
AMDAHL_API std::string_view to_string(VoxelMode mode);
AMDAHL_API std::string_view to_string(VoxelLayout layout);

/// A box of cubes: voxel (x, y, z) holds the points p with floor((p - minimum) / voxel_size) = (x, y, z), in float.
struct VoxelGrid {
  std::array<float, 3> minimum{-10, -10, -10};
  float voxel_size = 0.1f;                     // edge, in the points' unit
  std::array<int64_t, 3> size{128, 128, 128};  // X, Y, Z
};

/// One sensor: data [B, S, D] in f32, bf16 or f16 with times [B, S] in f32, finite and not falling along S.
struct SensorStream {
  ConstTensor data;
  ConstTensor times;
};

struct FuseOptions {
  Extrapolation extrapolation = Extrapolation::hold;
  bool check_times = true;  // refuse unsorted and non-finite times; reads them once more, and waits for the answer
};

struct VoxelizeOptions {
  VoxelMode mode = VoxelMode::occupancy;
  VoxelLayout layout = VoxelLayout::xyz;
  OutOfBounds bounds = OutOfBounds::drop;
  /// mean: sums in fixed point, bit-equal for any order of the points and any number of devices. The other modes always
  /// are.
  bool deterministic = false;
  bool zero_floor = false;     // max: not below 0, as RoboCache's zero-initialised grid
  bool fast_quotient = false;  // CUDA: the original's approximate division, and its NaN in voxel 0 of the axis

  /// What RoboCache's CUDA kernels do.
  static VoxelizeOptions robocache(VoxelMode mode) {
    return {mode, VoxelLayout::zyx, OutOfBounds::drop, false, true, true};
  }
};

/// What became of the points of a cloud.
struct VoxelizeStats {
  int64_t num_points = 0;
  int64_t num_nan = 0;      // a coordinate is NaN: in no voxel
  int64_t num_outside = 0;  // of the grid: dropped, or moved to its border by `clamp`
};

/// One device, and a stream of it that its calls are enqueued on. A call checks every argument before it launches
/// anything: Error{usage} names the argument, Error{non_finite} and Error{data_corrupt} the position of a bad time,
/// Error{out_of_memory} says before it allocates what would not fit. Calls from one thread at a time. On the host they
/// return when they are done; on a GPU the outputs are there after `synchronize`.
class AMDAHL_API Preprocessor {
 public:
  /// Computes on this process's CPU, in one thread.
  static Preprocessor on_host();
  /// On a GPU; `stream` is a cudaStream_t of it that outlives this object, or null for one of its own.
  static Preprocessor on_gpu(int index, void* stream = nullptr);
  Preprocessor(Preprocessor&&) noexcept;
  ~Preprocessor();

  /// Streams [B, S_i, D_i] at times [B, S_i] onto target times [B, T] (f32): output [B, T, sum of D_i], of the streams'
  /// type. hold: y = a + w * (b - a) with w = (t - t0) / (t1 - t0), each operation rounded to float, and the result to
  /// the output's type: the same bits on CPU and GPU.
  void fuse_multimodal(const std::vector<SensorStream>& streams, const ConstTensor& target_times, const Tensor& output,
                       const FuseOptions& options = {});

  /// A trajectory [B, S, D] at times [B, S] at target times [B, T]: output [B, T, D].
  void resample_trajectories(const SensorStream& trajectory, const ConstTensor& target_times, const Tensor& output,
                             const FuseOptions& options = {});

  /// Points [N, 3] (f32) into a grid. count and occupancy: output i32 [X, Y, Z] ([Z, Y, X] for layout zyx). bitmask:
  /// u32 [ceil(X * Y * Z / 32)], bit i % 32 of word i / 32 for voxel i. mean and max: features [N, F] (f32, bf16 or
  /// f16), output f32 [X, Y, Z, F], 0 in empty voxels. N = 0 gives an empty grid. Waits for the counts it returns.
  VoxelizeStats voxelize_pointcloud(const ConstTensor& points, const ConstTensor& features, const VoxelGrid& grid,
                                    const Tensor& output, const VoxelizeOptions& options = {});

  /// Waits for everything enqueued.
  void synchronize();

 private:
  struct State;
  explicit Preprocessor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace amdahl

// SensorOps: the preprocessing operations of one device, enqueued on its streams. Arguments were checked before
// (sensor/ops/checks.h). No call allocates, waits or reads results, so every call can be captured in a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "amdahl/sensor.h"
#include "device/device.h"
#include "sensor/ops/byte_counts.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// One stream: data [B, S, D] with times [B, S].
struct FuseStream {
  const void* data = nullptr;
  const float* times = nullptr;
  int64_t length = 0;  // S
  int64_t width = 0;   // D
};

/// Streams onto target times [B, T]: output [B, T, sum of widths].
struct FuseProblem {
  std::vector<FuseStream> streams;
  const float* targets = nullptr;
  void* output = nullptr;
  DType type = DType::f32;  // f32, bf16 or f16, of data and output
  int64_t batch = 0;
  int64_t num_targets = 0;  // T
  Extrapolation extrapolation = Extrapolation::hold;
};

/// Times [batch, length] to check: those of a row must not decrease.
struct TimesRows {
  const float* times = nullptr;
  int64_t batch = 0, length = 0;
};
/// The first invalid time in memory order, packed into one number, so that a minimum over threads finds it.
struct TimesFault {
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t place = kNone;  // 2 * (b * S + s), plus 1 if the time is finite but below its predecessor
  bool found() const { return place != kNone; }
  int64_t index() const { return static_cast<int64_t>(place / 2); }
  bool non_finite() const { return place % 2 == 0; }
};

/// Counts that a voxelization writes besides its grid, in device memory; the call clears them first.
struct VoxelizeCounts {
  int64_t num_nan = 0;
  int64_t num_outside = 0;
};

/// Voxelizes points [N, 3] with features [N, F]. `scratch` has voxelize_scratch_bytes bytes, of any content.
struct VoxelizeProblem {
  const float* points = nullptr;
  const void* features = nullptr;
  DType feature_type = DType::f32;
  int64_t num_points = 0;
  int64_t num_features = 0;
  VoxelGrid grid;
  VoxelizeOptions options;
  void* output = nullptr;  // the whole grid, see Preprocessor::voxelize_pointcloud
  /// The problem is a part of a cloud whose parts are merged. mean: the output is sums [V, F], f32 or, when
  /// deterministic, i64 in fixed point, and `counts` [V] i32. max: empty voxels are -inf, or 0 with zero_floor. count:
  /// see most_in_byte.
  bool partial = false;
  /// Not 0, for count as a part: the output is one byte per voxel, limited to this number, and the overflow list has
  /// the rest of the counts. On GPUs the output is aligned to 16 bytes and padded to a multiple of them. The first
  /// entry of the list, its length, is zero before the call; it has capacity for num_points / (most_in_byte + 1) more.
  int most_in_byte = 0;
  OverflowCount* overflow = nullptr;
  ByteParts byte_parts;             // GPUs: replaces `output` for these bytes if `voxels` > 0
  SortedParts sorted_parts;         // GPUs, count as a part: destination of sorted points; no output
  int32_t* counts = nullptr;        // mean: points per voxel; may be null unless partial
  const void* sums = nullptr;       // `finish`: merged sums of a mean; may be the output if f32
  const float* scale = nullptr;     // deterministic mean: 2^k in device memory, from `fixed_point_scale`
  VoxelizeCounts* stats = nullptr;  // may be null
  void* scratch = nullptr;
};

inline bool is_mean(const VoxelizeProblem& problem) { return problem.options.mode == VoxelMode::mean; }
/// Whether a mean is computed from fixed-point sums.
inline bool is_fixed_point(const VoxelizeProblem& problem) { return is_mean(problem) && problem.options.deterministic; }
int64_t num_voxels(const VoxelGrid& grid);
/// Number of 32-bit words of a bit mask of the grid.
int64_t num_mask_words(const VoxelGrid& grid);
/// Bytes of the output: 4 per voxel (1 if counts are bytes), 4 per feature of a voxel (8 for partial deterministic
/// sums), 4 per mask word.
size_t voxelize_output_bytes(const VoxelizeProblem& problem);
/// The fixed-point scale for sums of `num_points` values up to `largest`: the power of two, within float's normal
/// range, that keeps sums below 2^62 when both numbers are rounded up to powers of two. 2^127 without values, so that
/// the minimum over parts is the scale of a part with values.
float fixed_point_scale_of(float largest, int64_t num_points);

/// One rank's part in merging bit masks through the memory of peer GPUs.
class MaskPeers {
 public:
  virtual ~MaskPeers() = default;
  /// Exchanges masks with all ranks and writes their OR as a grid (i32, may be null) and as a mask (may be null).
  /// `mask` and `merged` are padded to multiples of 16 bytes; `mask` may be overwritten after this call in stream
  /// order. Every rank enqueues it; if one does not, the stream's next wait throws Error{rank_hung}.
  virtual void merge(Stream& stream, const uint32_t* mask, int32_t* grid, uint32_t* merged) = 0;
};

/// One rank's part in merging counts through the memory of peer GPUs. Voxelizing a part writes its bytes, or its sorted
/// points, into the memory of the rank that adds them up. The merge adds up this rank's voxels and exchanges the sums.
class CountPeers {
 public:
  virtual ~CountPeers() = default;
  /// Sets the destination of this part.
  virtual void aim(VoxelizeProblem& part) const = 0;
  /// grid (i32) = the counts of all parts, each voxelized once since the last merge. Every rank enqueues it; if one
  /// does not, the stream's next wait throws Error{rank_hung}.
  virtual void merge(Stream& stream, int32_t* grid) = 0;
};

class SensorOps {
 public:
  virtual ~SensorOps() = default;

  virtual void fuse(Stream& stream, const FuseProblem& problem) = 0;
  /// Finds in each of `rows` the first time that is not finite or is below its predecessor in its row. `faults` (device
  /// memory) has one entry per element of `rows`.
  virtual void check_times(Stream& stream, const std::vector<TimesRows>& rows, TimesFault* faults) = 0;

  virtual size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const = 0;
  virtual void voxelize(Stream& stream, const VoxelizeProblem& problem) = 0;

  /// *scale (device memory) = fixed_point_scale_of the largest finite |feature| and `num_points_of_all`. Parts of a
  /// cloud must use the minimum of their scales. Uses the problem's scratch memory.
  virtual void fixed_point_scale(Stream& stream, const VoxelizeProblem& problem, int64_t num_points_of_all,
                                 float* scale) = 0;
  /// Computes the grid from merged partial results. mean: sums / counts; max: -inf and -0 become 0.
  virtual void finish(Stream& stream, const VoxelizeProblem& merged) = 0;

  /// grid (i32) = the counts in `buffer`, which holds the sum of all ranks' byte counts. Clears the overflow lists.
  virtual void add_byte_counts(Stream& stream, const ByteCounts& layout, void* buffer, int32_t* grid) = 0;

  /// mask |= other, both of num_words words.
  virtual void merge_masks(Stream& stream, uint32_t* mask, const uint32_t* other, int64_t num_words) = 0;
  /// grid[i] (i32) = bit i of the mask.
  virtual void expand_mask(Stream& stream, const uint32_t* mask, int32_t* grid, int64_t num_voxels) = 0;

  /// Bytes of symmetric memory per rank for merging masks of `world_size` ranks through peer memory; 0: not supported.
  virtual size_t mask_peer_bytes(int64_t /*num_voxels*/, int /*world_size*/) const { return 0; }
  /// Null if not supported. `memory`: mask_peer_bytes of each rank, zeroed once.
  virtual std::unique_ptr<MaskPeers> join_masks(const SymmetricMemory& /*memory*/, int64_t /*num_voxels*/) {
    return nullptr;
  }
  /// Whether ranks can divide the bins of a grid of so many voxels: ByteCounts::divided.
  virtual bool divides_counts(int64_t /*num_voxels*/) const { return false; }
  /// As mask_peer_bytes, for counts.
  virtual size_t count_peer_bytes(const ByteCounts& /*layout*/) const { return 0; }
  virtual std::unique_ptr<CountPeers> join_counts(const SymmetricMemory& /*memory*/, const ByteCounts& /*layout*/) {
    return nullptr;
  }
};

std::unique_ptr<SensorOps> make_cpu_sensor_ops(Device& device);
/// Error{environment_missing} in a build without CUDA.
std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device& device);

}  // namespace amdahl

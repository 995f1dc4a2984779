// SensorOps: the preprocessing operations of one device, enqueued on its streams. Arguments are taken as checked
// (sensor/checks.h does that); nothing here allocates, waits or reads results, so that every call can be captured.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "amdahl/sensor.h"
#include "device/device.h"
#include "sensor/byte_counts.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// [B, S, D] with times [B, S].
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

/// Times [batch, length] to look through, of which those of a row must not fall.
struct TimesRows {
  const float* times = nullptr;
  int64_t batch = 0, length = 0;
};
/// The first bad one in memory order, as one number: the minimum over several threads is then the first fault.
struct TimesFault {
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t place = kNone;  // 2 * (b * S + s); and 1 if the time is finite, but below its predecessor
  bool found() const { return place != kNone; }
  int64_t index() const { return static_cast<int64_t>(place / 2); }
  bool non_finite() const { return place % 2 == 0; }
};

/// What a voxelization writes besides its grid, in device memory; zeroed by the call.
struct VoxelizeCounts {
  int64_t num_nan = 0;
  int64_t num_outside = 0;
};

/// Points [N, 3] and features [N, F] into voxels. `scratch` has voxelize_scratch_bytes bytes and need not be cleared.
struct VoxelizeProblem {
  const float* points = nullptr;
  const void* features = nullptr;
  DType feature_type = DType::f32;
  int64_t num_points = 0;
  int64_t num_features = 0;
  VoxelGrid grid;
  VoxelizeOptions options;
  void* output = nullptr;  // whole grid, written by the call: see Preprocessor::voxelize_pointcloud
  /// mean, as a part of a cloud whose parts are merged: leaves sums and counts apart. Output is then [V, F] sums, f32,
  /// or i64 fixed-point numbers when deterministic, and `counts` [V] i32. max, as a part: empty voxels are -inf, or 0
  /// with zero_floor. count, as a part: see most_in_byte.
  bool partial = false;
  /// count, as a part, unless 0: the output is a byte a voxel, this or less, and `beyond` lists what voxels have more.
  /// On GPUs the output begins at a multiple of 16 bytes and has room for a whole one. The list's first is zeros before
  /// the call; there is room for num_points / (most_in_byte + 1) behind it.
  int most_in_byte = 0;
  OverflowCount* overflow = nullptr;
  ByteParts byte_parts;             // GPUs: where the bytes go instead of the output, unless of 0 voxels
  SortedParts sorted_parts;         // GPUs, count as a part: where points go, sorted, and the output nowhere
  int32_t* counts = nullptr;        // mean: points of each voxel; may be null unless partial
  const void* sums = nullptr;       // of `finish`: merged sums of a mean; the output itself where they are f32
  const float* scale = nullptr;     // deterministic mean: 2^k on the device, by `fixed_point_scale`
  VoxelizeCounts* stats = nullptr;  // may be null
  void* scratch = nullptr;
};

int64_t num_voxels(const VoxelGrid& grid);
/// 32-bit words of a bit mask over the grid.
int64_t num_mask_words(const VoxelGrid& grid);
/// Bytes of the output: 4 a voxel (1 where counts are bytes), 4 a feature of a voxel (8 for partial deterministic
/// sums), 4 a mask word.
size_t voxelize_output_bytes(const VoxelizeProblem& problem);
/// The fixed-point scale of values up to `largest` of which `num_points` are added: a power of two within float's
/// normal range with which the sum stays below 2^62, from both rounded up to powers of two; 2^127 where there are no
/// values, so that the least of several scales is that of the parts that have some.
float fixed_point_scale_of(float largest, int64_t num_points);

/// A rank's end of merging bit masks through the other ranks' memory.
class MaskPeers {
 public:
  virtual ~MaskPeers() = default;
  /// Sends this rank's mask to all and takes theirs: the OR of them as a grid (i32, may be null) and as a mask (may be
  /// null). `mask` has whole vectors of 16 bytes, as `merged`, and may be written again once the stream is past this.
  /// All ranks enqueue it alike; one that does not come is an Error{rank_hung} at the stream's next wait.
  virtual void merge(Stream& stream, const uint32_t* mask, int32_t* grid, uint32_t* merged) = 0;
};

/// A rank's end of merging counts through the other ranks' memory. Voxelizing a part writes its bytes, or its sorted
/// points, where a rank adds them up; merging adds up this rank's voxels, sends the sums to all, and takes theirs.
class CountPeers {
 public:
  virtual ~CountPeers() = default;
  /// Where this part goes.
  virtual void aim(VoxelizeProblem& part) const = 0;
  /// grid (i32) = the counts of all parts, each voxelized once since the last merge. All ranks enqueue it alike; one
  /// that does not come is an Error{rank_hung} at the stream's next wait.
  virtual void merge(Stream& stream, int32_t* grid) = 0;
};

class SensorOps {
 public:
  virtual ~SensorOps() = default;

  virtual void fuse(Stream& stream, const FuseProblem& problem) = 0;
  /// Looks through each of `rows` for the first time that is not finite or below the one before it in its row;
  /// `faults`, one for each, are device memory.
  virtual void check_times(Stream& stream, const std::vector<TimesRows>& rows, TimesFault* faults) = 0;

  virtual size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const = 0;
  virtual void voxelize(Stream& stream, const VoxelizeProblem& problem) = 0;

  /// *scale (device memory) = fixed_point_scale_of the largest finite |feature|, for sums over `num_points_of_all`. The
  /// parts of a cloud take the least of their scales. Uses the problem's scratch memory.
  virtual void fixed_point_scale(Stream& stream, const VoxelizeProblem& problem, int64_t num_points_of_all,
                                 float* scale) = 0;
  /// What `partial` left apart, merged over all parts, becomes the grid. mean: sums / counts; max: -inf and -0 become
  /// 0.
  virtual void finish(Stream& stream, const VoxelizeProblem& merged) = 0;

  /// grid (i32) = what the ranks' byte counts in `buffer`, added up, amount to. Leaves zeros in the lists.
  virtual void add_byte_counts(Stream& stream, const ByteCounts& layout, void* buffer, int32_t* grid) = 0;

  /// mask |= other, both num_words words.
  virtual void merge_masks(Stream& stream, uint32_t* mask, const uint32_t* other, int64_t num_words) = 0;
  /// grid[i] (i32) = bit i of the mask.
  virtual void expand_mask(Stream& stream, const uint32_t* mask, int32_t* grid, int64_t num_voxels) = 0;

  /// Bytes that each of `world_size` ranks shares to merge masks through peers' memory; 0 where that is not done.
  virtual size_t mask_peer_bytes(int64_t num_voxels, int world_size) const {
    (void)num_voxels, (void)world_size;
    return 0;
  }
  /// Null where it is not. `memory`: mask_peer_bytes of each rank, zeroed once.
  virtual std::unique_ptr<MaskPeers> join_masks(const SymmetricMemory& memory, int64_t num_voxels) {
    (void)memory, (void)num_voxels;
    return nullptr;
  }
  /// Whether this device can count some bins of all parts, of a grid of so many voxels: ByteCounts::divided.
  virtual bool divides_counts(int64_t num_voxels) const {
    (void)num_voxels;
    return false;
  }
  /// The same of counts.
  virtual size_t count_peer_bytes(const ByteCounts& layout) const {
    (void)layout;
    return 0;
  }
  virtual std::unique_ptr<CountPeers> join_counts(const SymmetricMemory& memory, const ByteCounts& layout) {
    (void)memory, (void)layout;
    return nullptr;
  }
};

std::unique_ptr<SensorOps> make_cpu_sensor_ops(Device& device);
/// Error{environment_missing} in a build without CUDA.
std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device& device);

}  // namespace amdahl

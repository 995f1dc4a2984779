// One point cloud over the ranks of a communicator: every rank voxelizes its points, and all end with the grid of the
// whole cloud. count, occupancy, bitmask, max and the deterministic mean have the bits that one device gives; the f32
// mean adds up in another order.
#pragma once

#include <memory>
#include <string_view>

#include "comm/communicator.h"
#include "sensor/sensor_ops.h"

namespace amdahl {

/// none: each rank keeps the grid of its own points. collective: all-reduce of the grids. bitmask: all-gather of bit
/// masks and OR, of occupancy and bitmask only. bytes: all-reduce of counts in bytes (byte_counts.h), of count only.
/// peer: masks or counts by kernels that write the other devices' memory; of large grids each rank counts some voxels
/// of all points.
enum class MergeMethod { none, collective, bitmask, peer, bytes };
std::string_view to_string(MergeMethod method);

/// The way that moves the fewest bytes, whatever the number of points.
MergeMethod best_merge(VoxelMode mode);
/// The same of grids of so many voxels, whose ranks have so many points at most.
MergeMethod best_merge(VoxelMode mode, int64_t voxels, int64_t num_points_of_rank, int world_size);
/// Whether grids of that mode can be merged that way.
Feasibility can_merge(VoxelMode mode, MergeMethod method);

/// Whether the ranks can merge masks, or counts, of this many voxels in each other's memory. Collective, blocking on
/// the host; all get the same answer.
Feasibility reach_peers(Device& device, const SensorOps& ops, Communicator& communicator, int64_t voxels);

/// Owns the memory between voxelizing and merging, so that problems that differ only in points, features and output
/// share it. Calls are enqueued in the same order on all ranks, and can be captured.
class GridMerge {
 public:
  /// `like` as problems come later; `num_points_of_all` bounds the sum over ranks for a deterministic mean. Allocates.
  /// Ways peer and bytes: collective over the ranks, whose devices must be idle. Error{usage} for way peer where the
  /// ranks are processes or a device does not reach another's memory, and for counts in bytes of more than 255 ranks or
  /// 2^32 voxels.
  GridMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
            int64_t num_points_of_all, MergeMethod method);

  /// Device memory that an object made with these takes.
  static size_t memory_bytes(const SensorOps& ops, const VoxelizeProblem& like, int world_size, MergeMethod method);

  /// For a problem with another number of points than before, whose scratch may need more: allocates, so not captured,
  /// and waits for nothing, so that earlier calls must have ended.
  void make_room(const VoxelizeProblem& problem);

  /// This rank's part of `problem`, whose output is the grid of the whole. A deterministic mean agrees on its scale
  /// here. Error{usage} for counts in bytes and more points than any rank had at first.
  void compute(Stream& stream, const VoxelizeProblem& problem);
  /// All parts become the grid in problem.output, on every rank.
  void merge(Stream& stream, const VoxelizeProblem& problem);

 private:
  VoxelizeProblem part_of(const VoxelizeProblem& problem) const;
  void merge_masks(Stream& stream, const VoxelizeProblem& problem);
  void merge_mean(Stream& stream, const VoxelizeProblem& problem);
  uint32_t* own_mask() const;
  void connect_peers(int64_t voxels, bool counts);
  void lay_out_bytes(const VoxelizeProblem& like);

  Device& device_;
  SensorOps& ops_;
  Communicator& communicator_;
  int64_t num_points_of_all_;
  MergeMethod method_;
  std::unique_ptr<Buffer> scratch_, counts_, sums_, scale_;  // null where not needed, as the next two
  std::shared_ptr<Buffer> masks_, bytes_;
  ByteCounts byte_counts_;                   // of counts in bytes
  std::unique_ptr<MaskPeers> mask_peers_;    // way peer, of masks
  std::unique_ptr<CountPeers> count_peers_;  // and of counts
};

}  // namespace amdahl

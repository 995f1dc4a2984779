// Merges the grids of a communicator's ranks: each rank voxelizes its points and gets the grid of the whole cloud.
// count, occupancy, bitmask, max and the deterministic mean equal those of one device bit for bit; the f32 mean adds in
// another order.
#pragma once

#include <memory>
#include <string_view>

#include "comm/communicator.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// none: each rank keeps the grid of its own points. collective: all-reduce of the grids. bitmask: all-gather of bit
/// masks and OR, for occupancy and bitmask. bytes: all-reduce of byte counts (byte_counts.h), for count. peer: masks or
/// counts by kernels that write the memory of peer devices; in large grids each rank counts some voxels of all points.
enum class MergeMethod { none, collective, bitmask, peer, bytes };
std::string_view to_string(MergeMethod method);

/// The method that moves the fewest bytes for any number of points.
MergeMethod best_merge(VoxelMode mode);
/// The method that moves the fewest bytes for a grid of `voxels` and at most `num_points_of_rank` points per rank.
MergeMethod best_merge(VoxelMode mode, int64_t voxels, int64_t num_points_of_rank, int world_size);
/// Whether the method can merge grids of this mode.
Feasibility can_merge(VoxelMode mode, MergeMethod method);

/// Whether the ranks can merge masks or counts of this many voxels through peer memory. Collective, blocks the host;
/// all ranks get the same answer.
Feasibility reach_peers(Device& device, const SensorOps& ops, Communicator& communicator, int64_t voxels);

/// Owns the memory between voxelizing and merging, for problems that differ only in points, features and output. All
/// ranks enqueue calls in the same order; calls can be captured in a graph.
class GridMerge {
 public:
  /// Allocates for problems like `like`. `num_points_of_all` bounds the number of points of all ranks, for a
  /// deterministic mean. Methods peer and bytes: collective over the ranks, whose devices must be idle. Throws
  /// Error{usage} for method peer if ranks are processes or a device cannot access another's memory, and for byte
  /// counts of more than 255 ranks or 2^32 voxels.
  GridMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
            int64_t num_points_of_all, MergeMethod method);

  /// Device memory of an object with these arguments.
  static size_t memory_bytes(const SensorOps& ops, const VoxelizeProblem& like, int world_size, MergeMethod method);

  /// Grows the scratch memory for a problem with another number of points. Allocates, so it cannot be captured, and
  /// does not wait, so earlier calls must have completed.
  void make_room(const VoxelizeProblem& problem);

  /// Voxelizes this rank's part of `problem`, whose output is the grid of the whole cloud. A deterministic mean agrees
  /// on its scale here. Throws Error{usage} for byte counts of more points than any rank had at construction.
  void compute(Stream& stream, const VoxelizeProblem& problem);
  /// Merges all parts into problem.output on every rank.
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
  std::unique_ptr<Buffer> scratch_, counts_, sums_, scale_;  // null if not needed, as the next two
  std::shared_ptr<Buffer> masks_, bytes_;
  ByteCounts byte_counts_;                   // layout of byte counts
  std::unique_ptr<MaskPeers> mask_peers_;    // method peer, masks
  std::unique_ptr<CountPeers> count_peers_;  // method peer, counts
};

}  // namespace amdahl

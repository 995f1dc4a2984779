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
/// masks and OR, of occupancy and bitmask only. peer: the same by one kernel that writes the other devices' memory.
enum class MergeWay { none, collective, bitmask, peer };
std::string_view to_string(MergeWay way);

/// The way that moves the fewest bytes.
MergeWay best_merge(VoxelMode mode);
/// Whether grids of that mode can be merged that way.
Feasibility can_merge(VoxelMode mode, MergeWay way);

/// Owns the memory between voxelizing and merging, so that problems that differ only in points, features and output
/// share it. Calls are enqueued in the same order on all ranks, and can be captured.
class GridMerge {
 public:
  /// `like` as problems come later; `num_points_of_all` bounds the sum over ranks for a deterministic mean. Allocates.
  /// Way peer: collective over the ranks, whose devices must be idle; Error{usage} where the ranks are processes or a
  /// device does not reach another's memory.
  GridMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
            int64_t num_points_of_all, MergeWay way);

  /// Device memory that an object made with these takes.
  static size_t memory_bytes(const SensorOps& ops, const VoxelizeProblem& like, int world_size, MergeWay way);

  /// For a problem with another number of points than before, whose scratch may need more: allocates, so not captured,
  /// and waits for nothing, so that earlier calls must have ended.
  void make_room(const VoxelizeProblem& problem);

  /// This rank's part of `problem`, whose output is the grid of the whole. A deterministic mean agrees on its scale
  /// here.
  void compute(Stream& stream, const VoxelizeProblem& problem);
  /// All parts become the grid in problem.output, on every rank.
  void merge(Stream& stream, const VoxelizeProblem& problem);

 private:
  VoxelizeProblem part_of(const VoxelizeProblem& problem) const;
  void merge_masks(Stream& stream, const VoxelizeProblem& problem);
  void merge_mean(Stream& stream, const VoxelizeProblem& problem);
  uint32_t* own_mask() const;
  void connect_masks(int64_t voxels);

  Device& device_;
  SensorOps& ops_;
  Communicator& communicator_;
  int64_t num_points_of_all_;
  MergeWay way_;
  std::unique_ptr<Buffer> scratch_, counts_, sums_, scale_, masks_;  // null where not needed
  std::shared_ptr<Buffer> shared_;                                   // way peer
  std::unique_ptr<MaskPeers> peers_;
};

}  // namespace amdahl

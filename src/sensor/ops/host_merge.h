// Merges the grids of devices without a common communicator in host memory. Each device voxelizes its points. count,
// occupancy, bitmask, max and the deterministic mean equal those of one device bit for bit; the f32 mean adds in
// another order.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// The parts and the merged grid, shared by the ranks' threads. Threads merge different slices concurrently; the caller
/// puts a barrier between writing parts and merging.
class HostGrid {
 public:
  HostGrid(const VoxelizeProblem& like, int num_parts);

  void* part(int index) { return parts_[static_cast<size_t>(index)].data(); }
  int32_t* counts(int index) { return counts_[static_cast<size_t>(index)].data(); }
  size_t part_bytes() const { return parts_.front().size(); }
  size_t counts_bytes() const { return counts_.front().size() * sizeof(int32_t); }  // 0 for modes other than mean

  /// Merges slice `index` of `num_slices` from all parts. `scale`: of a deterministic mean.
  void merge(int index, int num_slices, float scale);
  const std::vector<char>& grid() const { return grid_; }

 private:
  void merge_sums(int64_t begin, int64_t end, float scale);
  template <class T>
  const T* values(size_t part) const {
    return reinterpret_cast<const T*>(parts_[part].data());
  }

  VoxelizeProblem like_;
  std::vector<std::vector<char>> parts_;
  std::vector<std::vector<int32_t>> counts_;
  std::vector<char> grid_;
};

/// One rank's part in the merge. Uses the communicator only to exchange messages.
class HostMerge {
 public:
  /// Allocates for problems like `like`. `num_points_of_all` bounds the number of points of all ranks, for a
  /// deterministic mean.
  HostMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
            int64_t num_points_of_all, HostGrid& grid);

  /// Call before `compute`, after earlier calls have completed. A deterministic mean waits for the scales of all parts.
  void prepare(Stream& stream, const VoxelizeProblem& problem, Deadline deadline);
  /// Enqueues this rank's part of the grid and its copy to host memory.
  void compute(Stream& stream, const VoxelizeProblem& problem);
  /// Merges this rank's slice of the grid, after all parts have arrived.
  void merge() { grid_.merge(communicator_.rank(), communicator_.world_size(), agreed_scale_); }

 private:
  VoxelizeProblem part_of(const VoxelizeProblem& problem) const;
  void make_room(const VoxelizeProblem& problem);

  Device& device_;
  SensorOps& ops_;
  Communicator& communicator_;
  HostGrid& grid_;
  int64_t num_points_of_all_;
  float agreed_scale_ = 1;
  std::unique_ptr<Buffer> output_, counts_, scratch_, scale_;  // null if not needed
};

}  // namespace amdahl

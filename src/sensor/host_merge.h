// One point cloud over devices that have no communicator in common: every device voxelizes its points, and the parts
// become one grid in host memory. count, occupancy, bitmask, max and the deterministic mean have the bits that one
// device gives; the f32 mean adds up in another order.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "sensor/sensor_ops.h"

namespace amdahl {

/// The parts and the grid, which the ranks' threads share. Different slices are merged by different threads at once;
/// between what writes parts and what reads them there is a barrier of the threads.
class HostGrid {
 public:
  HostGrid(const VoxelizeProblem& like, int num_parts);

  void* part(int index) { return parts_[static_cast<size_t>(index)].data(); }
  int32_t* counts(int index) { return counts_[static_cast<size_t>(index)].data(); }
  size_t part_bytes() const { return parts_.front().size(); }
  size_t counts_bytes() const { return counts_.front().size() * sizeof(int32_t); }  // 0 unless mean

  /// Slice `index` of `num_slices` of the grid from all parts. `scale`: of a deterministic mean.
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

/// One rank's side of it. The communicator is only asked to exchange messages.
class HostMerge {
 public:
  /// `like` as problems come later; `num_points_of_all` bounds the sum over ranks for a deterministic mean. Allocates.
  HostMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
            int64_t num_points_of_all, HostGrid& grid);

  /// Before `compute`, when earlier calls have ended. A deterministic mean waits here for the scale of all parts.
  void prepare(Stream& stream, const VoxelizeProblem& problem, Deadline deadline);
  /// This rank's part of the grid, on its way to host memory.
  void compute(Stream& stream, const VoxelizeProblem& problem);
  /// This rank's slice of the grid, once the parts of all have arrived.
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
  std::unique_ptr<Buffer> output_, counts_, scratch_, scale_;  // null where not needed
};

}  // namespace amdahl

// Inputs of the sensor benchmark from files: items are the file's points in their order, or its rows, again from the
// first where a job has more rows.
#pragma once

#include <vector>

#include "amdahl/sensor.h"
#include "sensor/measure/data.h"

namespace amdahl {

/// Where the targets of a row begin and end: from where all streams have begun to where one ends. Times of the file.
struct TargetWindow {
  double begin = 0, end = 0;
};
TargetWindow target_window(const std::vector<Trajectories>& tracks, int64_t row);

void read_points(const SensorJob& job, ItemRange items, SensorItems& made);
/// Times are counted from the row's first. Targets are spread evenly over the row's window.
void read_rows(const SensorJob& job, ItemRange items, SensorItems& made);

/// What becomes of a job's points, without `clamp`.
struct DropCounts {
  int64_t num_nan = 0, num_outside = 0;
};
DropCounts drop_counts_of(const SensorJob& job);

/// The cube of voxels, `grid.size` of them, that is centred on the cloud's finite points. `voxel_size` 0: the least
/// with which all of them are inside. Error{usage} when there are none.
VoxelGrid grid_around(const PointCloud& cloud, const std::array<int64_t, 3>& size, double voxel_size,
                      const std::string& name);

}  // namespace amdahl

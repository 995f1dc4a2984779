#include "sensor/measure/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace amdahl {
namespace {

const double* times_of(const Trajectories& track, int64_t row) { return track.times.data() + row * track.length; }

/// The earliest time of the row: floats, which times become, have 7 digits.
double origin_of(const std::vector<Trajectories>& tracks, int64_t row) {
  double origin = std::numeric_limits<double>::infinity();
  for (const Trajectories& track : tracks) origin = std::min(origin, times_of(track, row)[0]);
  return origin;
}

void read_row(const SensorJob& job, int64_t row, int64_t place, SensorItems& made) {
  const std::vector<Trajectories>& tracks = *job.tracks;
  const double origin = origin_of(tracks, row);
  const TargetWindow window = target_window(tracks, row);
  for (int64_t t = 0; t < job.num_targets; ++t) {
    const double share = job.num_targets > 1 ? static_cast<double>(t) / static_cast<double>(job.num_targets - 1) : 0;
    made.targets[static_cast<size_t>(place * job.num_targets + t)] =
        static_cast<float>(window.begin + share * (window.end - window.begin) - origin);
  }
  for (size_t s = 0; s < job.streams.size(); ++s) {
    const Trajectories& track = tracks[s];
    for (int64_t i = 0; i < track.length; ++i)
      made.stream_times[s][static_cast<size_t>(place * track.length + i)] =
          static_cast<float>(times_of(track, row)[i] - origin);
    const int64_t values = track.length * track.width;
    std::byte* out = made.stream_data[s].data() + static_cast<size_t>(place * values) * size_of(job.type);
    for (int64_t i = 0; i < values; ++i)
      store_element(out + static_cast<size_t>(i) * size_of(job.type), job.type,
                    track.values[static_cast<size_t>(row * values + i)]);
  }
}

}  // namespace

TargetWindow target_window(const std::vector<Trajectories>& tracks, int64_t row) {
  TargetWindow window{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (const Trajectories& track : tracks) {
    window.begin = std::max(window.begin, times_of(track, row)[0]);
    window.end = std::min(window.end, times_of(track, row)[track.length - 1]);
  }
  return window;
}

void read_points(const SensorJob& job, ItemRange items, SensorItems& made) {
  const PointCloud& cloud = *job.cloud;
  made.points.assign(cloud.points.begin() + items.begin * 3, cloud.points.begin() + items.end * 3);
  const size_t size = size_of(job.type);
  made.features.resize(static_cast<size_t>(items.count() * job.num_features) * size);
  std::byte* out = made.features.data();
  for (int64_t i = items.begin; i < items.end; ++i)
    for (int64_t f = 0; f < job.num_features; ++f, out += size)
      store_element(out, job.type, cloud.features[static_cast<size_t>(i * cloud.num_features + f)]);
}

void read_rows(const SensorJob& job, ItemRange items, SensorItems& made) {
  made.targets.resize(static_cast<size_t>(items.count() * job.num_targets));
  for (const StreamShape& shape : job.streams) {
    made.stream_data.emplace_back(static_cast<size_t>(items.count() * shape.length * shape.width) * size_of(job.type));
    made.stream_times.emplace_back(static_cast<size_t>(items.count() * shape.length));
  }
  const int64_t rows = job.tracks->front().batch;
  for (int64_t i = items.begin; i < items.end; ++i) read_row(job, i % rows, i - items.begin, made);
}

DropCounts drop_counts_of(const SensorJob& job) {
  DropCounts drops;
  for (int64_t i = 0; i < job.num_items; ++i) {
    const float* point = job.cloud->points.data() + i * 3;
    if (std::isnan(point[0]) || std::isnan(point[1]) || std::isnan(point[2])) {
      ++drops.num_nan;
      continue;
    }
    bool inside = true;
    for (size_t axis = 0; axis < 3; ++axis) {
      const float cell = std::floor((point[axis] - job.grid.minimum[axis]) / job.grid.voxel_size);
      inside = inside && cell >= 0 && cell < static_cast<float>(job.grid.size[axis]);
    }
    drops.num_outside += !inside;
  }
  return drops;
}

VoxelGrid grid_around(const PointCloud& cloud, const std::array<int64_t, 3>& size, double voxel_size,
                      const std::string& name) {
  std::array<double, 3> low{}, high{};
  low.fill(std::numeric_limits<double>::infinity());
  high.fill(-std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < cloud.points.size(); i += 3) {
    const float* point = cloud.points.data() + i;
    if (!std::isfinite(point[0]) || !std::isfinite(point[1]) || !std::isfinite(point[2])) continue;
    for (size_t axis = 0; axis < 3; ++axis) {
      low[axis] = std::min(low[axis], double{point[axis]});
      high[axis] = std::max(high[axis], double{point[axis]});
    }
  }
  if (!(low[0] <= high[0]))
    throw Error(Cause::usage, fmt::format("{} has no finite point to put a grid around", name), "another `inputs`");
  constexpr double kSlack = 1 + 1e-5;  // floats on the upper border stay inside
  double least = 0;
  for (size_t axis = 0; axis < 3; ++axis)
    least = std::max(least, (high[axis] - low[axis]) / static_cast<double>(size[axis]) * kSlack);
  VoxelGrid grid;
  grid.size = size;
  grid.voxel_size = static_cast<float>(voxel_size > 0 ? voxel_size : least > 0 ? least : 1.0);
  for (size_t axis = 0; axis < 3; ++axis)
    grid.minimum[axis] = static_cast<float>((low[axis] + high[axis]) / 2 -
                                            static_cast<double>(size[axis]) * double{grid.voxel_size} / 2);
  return grid;
}

}  // namespace amdahl

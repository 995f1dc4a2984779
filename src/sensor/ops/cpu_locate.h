// Computes the voxels of points on the CPU, for blocks of points, axis by axis. Only for cpu_voxels.cpp, which is built
// twice.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {
namespace {

constexpr int64_t kBlock = 512;  // points of a block
constexpr int64_t kAhead = 16;   // prefetch distance in points

/// Computes the voxels of a block of points and counts points outside. `Index` can hold any voxel of the grid.
template <class Index>
class Locator {
 public:
  static constexpr Index kNoVoxel = -1;

  explicit Locator(const VoxelizeProblem& problem) : problem_(problem) {
    const auto& size = problem.grid.size;
    const bool xyz = problem.options.layout == VoxelLayout::xyz;
    const std::array<int64_t, 3> stride = xyz ? std::array<int64_t, 3>{size[1] * size[2], size[2], 1}
                                              : std::array<int64_t, 3>{1, size[0], size[0] * size[1]};
    for (size_t axis = 0; axis < 3; ++axis) stride_[axis] = static_cast<Index>(stride[axis]);
  }
  ~Locator() {
    if (problem_.stats) *problem_.stats = counts_;
  }
  Locator(const Locator&) = delete;
  Locator& operator=(const Locator&) = delete;

  /// Voxels of the points [begin, begin + count). Elements from `count` on are voxels of earlier blocks.
  const std::array<Index, kBlock>& locate(int64_t begin, int64_t count) {
    const float* points = problem_.points + begin * 3;
    for (int64_t i = 0; i < count; ++i)  // transposed, so that the loops below vectorise
      for (size_t axis = 0; axis < 3; ++axis) at_[axis][static_cast<size_t>(i)] = points[i * 3 + axis];
    uint32_t fault = 0;
    for (size_t axis = 0; axis < 3; ++axis) fault |= locate_on(axis, count);
    for (int64_t i = 0; fault != 0 && i < count; ++i)
      if (faults_[static_cast<size_t>(i)] != 0) judge(i, faults_[static_cast<size_t>(i)], begin);
    return voxels_;
  }

 private:
  static constexpr uint32_t kNan = 1, kOutside = 2;

  /// Adds the contribution of an axis to the voxels; returns the union of all points' faults.
  uint32_t locate_on(size_t axis, int64_t count) {
    const float minimum = problem_.grid.minimum[axis], edge = problem_.grid.voxel_size;
    const auto top = static_cast<float>(problem_.grid.size[axis] - 1);
    const Index stride = stride_[axis];
    const float* at = at_[axis].data();
    const bool first = axis == 0;
    uint32_t all = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float cell = std::floor((at[i] - minimum) / edge);
      const float inside = std::min(std::max(0.0f, cell), top);  // this order gives 0 for NaN
      const uint32_t fault = (cell != cell ? kNan : 0u) | (inside != cell ? kOutside : 0u);
      const Index part = static_cast<Index>(static_cast<int32_t>(inside)) * stride;
      faults_[static_cast<size_t>(i)] = (first ? 0 : faults_[static_cast<size_t>(i)]) | fault;
      voxels_[static_cast<size_t>(i)] = (first ? 0 : voxels_[static_cast<size_t>(i)]) + part;
      all |= fault;
    }
    return all;
  }

  void judge(int64_t i, uint32_t fault, int64_t begin) {
    const VoxelizeOptions& options = problem_.options;
    if ((fault & kNan) != 0 && !options.fast_quotient) {
      ++counts_.num_nan;
      voxels_[static_cast<size_t>(i)] = kNoVoxel;
      return;
    }
    if ((fault & kNan) != 0 && !outside_but_nan(begin + i)) return;  // NaN is voxel 0 of its axis
    ++counts_.num_outside;
    if (options.bounds == OutOfBounds::drop) voxels_[static_cast<size_t>(i)] = kNoVoxel;
  }

  bool outside_but_nan(int64_t point) const {
    for (size_t axis = 0; axis < 3; ++axis) {
      const float q = (problem_.points[point * 3 + static_cast<int64_t>(axis)] - problem_.grid.minimum[axis]) /
                      problem_.grid.voxel_size;
      if (std::floor(q) < 0 || std::floor(q) >= static_cast<float>(problem_.grid.size[axis])) return true;
    }
    return false;
  }

  const VoxelizeProblem& problem_;
  std::array<Index, 3> stride_{};
  std::array<std::array<float, kBlock>, 3> at_;
  std::array<Index, kBlock> voxels_{};
  std::array<uint32_t, kBlock> faults_;
  VoxelizeCounts counts_;
};

/// Calls add(point, voxel) for every point in a voxel, and look_ahead(voxel) kAhead points earlier.
template <class Index, class Add, class LookAhead>
void for_each_point_by(const VoxelizeProblem& problem, const Add& add, const LookAhead& look_ahead) {
  Locator<Index> locator(problem);
  for (int64_t begin = 0; begin < problem.num_points; begin += kBlock) {
    const int64_t count = std::min(kBlock, problem.num_points - begin);
    const std::array<Index, kBlock>& voxels = locator.locate(begin, count);
    for (int64_t i = 0; i < count; ++i) {
      look_ahead(int64_t{voxels[static_cast<size_t>(std::min(i + kAhead, kBlock - 1))]});
      const Index voxel = voxels[static_cast<size_t>(i)];
      if (voxel != Locator<Index>::kNoVoxel) add(begin + i, int64_t{voxel});
    }
  }
}
template <class Add, class LookAhead>
void for_each_point(const VoxelizeProblem& problem, const Add& add, const LookAhead& look_ahead) {
  if (num_voxels(problem.grid) <= std::numeric_limits<int32_t>::max())
    return for_each_point_by<int32_t>(problem, add, look_ahead);
  for_each_point_by<int64_t>(problem, add, look_ahead);
}
template <class Add>
void for_each_point(const VoxelizeProblem& problem, const Add& add) {
  for_each_point(problem, add, [](int64_t) {});
}

/// Prefetches a voxel's row. Rows are scattered over the grid, so without prefetching every point waits for memory.
template <class Value>
void prefetch_row(const Value* rows, int64_t width, int64_t voxel) {
  const auto* row = reinterpret_cast<const char*>(rows + std::max<int64_t>(voxel, 0) * width);
  const int64_t bytes = width * static_cast<int64_t>(sizeof(Value));
  constexpr int64_t kLine = 64, kMost = 4 * kLine;
  for (int64_t at = 0; at < std::min(bytes, kMost); at += kLine) __builtin_prefetch(row + at, 1);
}
template <class Value>
auto rows_ahead(const Value* rows, int64_t width) {
  return [=](int64_t voxel) { prefetch_row(rows, width, voxel); };
}
template <class Value>
auto rows_and_counts_ahead(const Value* rows, int64_t width, const int32_t* counts) {
  return [=](int64_t voxel) {
    prefetch_row(rows, width, voxel);
    prefetch_row(counts, 1, voxel);
  };
}

}  // namespace
}  // namespace amdahl

// Voxelization on the CPU. Built twice: AMDAHL_CPU_VOXELS names the table, the build sets the instruction set.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "sensor/ops/cpu_elements.h"
#include "sensor/ops/cpu_kernels.h"
#include "sensor/ops/cpu_locate.h"
#include "sensor/ops/voxel_values.h"

namespace amdahl {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

/// Calls add(values, row, voxel) for the features of every point in a voxel; `row` is the voxel's row of rows [V, F].
template <class T, class Row, class LookAhead, class Add>
void for_each_features(const VoxelizeProblem& problem, Row* rows, const LookAhead& look_ahead, const Add& add) {
  const int64_t width = problem.num_features;
  const T* features = static_cast<const T*>(problem.features);
  for_each_point(
      problem, [&](int64_t point, int64_t voxel) { add(features + point * width, rows + voxel * width, voxel); },
      look_ahead);
}

/// Maxima that start from `least`: those of a part, or with zero_floor.
template <class T>
void max_from(const VoxelizeProblem& problem, float least) {
  const int64_t width = problem.num_features;
  auto* grid = static_cast<float*>(problem.output);
  std::fill_n(grid, num_voxels(problem.grid) * width, least);
  for_each_features<T>(problem, grid, rows_ahead(grid, width), [&](const T* values, float* most, int64_t) {
    for (int64_t f = 0; f < width; ++f) most[f] = larger(most[f], load(values[f]));
  });
}

/// Final maxima over a grid of zeros; a bit per voxel marks that it has points. Returns whether some voxels had only
/// NaN or -infinity and need `finish`.
template <class T>
bool max_in_place(const VoxelizeProblem& problem, uint32_t* touched) {
  const int64_t width = problem.num_features;
  auto* grid = static_cast<float*>(problem.output);
  std::fill_n(grid, num_voxels(problem.grid) * width, 0.0f);
  std::fill_n(touched, num_mask_words(problem.grid), 0u);
  uint32_t unfinished = 0;
  for_each_features<T>(problem, grid, rows_ahead(grid, width), [&](const T* values, float* most, int64_t voxel) {
    uint32_t& word = touched[voxel / 32];
    const uint32_t bit = 1u << (voxel % 32);
    if ((word & bit) != 0) {
      for (int64_t f = 0; f < width; ++f) most[f] = larger(most[f], load(values[f]) + 0.0f);  // -0 as +0
      return;
    }
    word |= bit;
    for (int64_t f = 0; f < width; ++f) {
      most[f] = larger(kLeast, load(values[f]) + 0.0f);
      unfinished |= most[f] == kLeast ? 1u : 0u;
    }
  });
  return unfinished != 0;
}

template <class T, class Sum, class Rounded>
void sum_as(const VoxelizeProblem& problem, Sum* sums, int32_t* counts, const Rounded& rounded) {
  const int64_t width = problem.num_features, voxels = num_voxels(problem.grid);
  std::fill_n(sums, voxels * width, Sum{0});
  std::fill_n(counts, voxels, 0);
  const auto ahead = rows_and_counts_ahead(sums, width, counts);
  for_each_features<T>(problem, sums, ahead, [&](const T* values, Sum* sum, int64_t voxel) {
    if (counts[voxel]++ == 0) {  // does not read the row, which is zero
      for (int64_t f = 0; f < width; ++f) sum[f] = Sum{0} + rounded(load(values[f]));
    } else {
      for (int64_t f = 0; f < width; ++f) sum[f] += rounded(load(values[f]));
    }
  });
}

/// A value in units of 1 / scale; 0 if not finite.
int64_t fixed_point(float value, double scale) {
  return value == value && std::fabs(value) <= std::numeric_limits<float>::max()
             ? static_cast<int64_t>(std::nearbyint(static_cast<double>(value) * scale))
             : int64_t{0};
}

/// Sums of occupied voxels, in slots in order of first points. The first float of a voxel's row in the grid holds its
/// slot number. Returns the number of slots.
template <class T>
int64_t sum_by_slot(const VoxelizeProblem& problem, const ValueMemory& memory) {
  const int64_t width = problem.num_features, voxels = num_voxels(problem.grid);
  const double scale = *problem.scale;
  auto* grid = static_cast<float*>(problem.output);
  std::fill_n(grid, voxels * width, 0.0f);
  std::fill_n(memory.counts, voxels, 0);
  const auto ahead = rows_and_counts_ahead(grid, width, memory.counts);
  int32_t num_slots = 0;
  for_each_features<T>(problem, grid, ahead, [&](const T* values, float* row, int64_t voxel) {
    const bool first = memory.counts[voxel]++ == 0;
    if (first) {
      memory.slots[num_slots] = voxel;
      *row = std::bit_cast<float>(num_slots++);
    }
    int64_t* sums = static_cast<int64_t*>(memory.sums) + int64_t{std::bit_cast<int32_t>(*row)} * width;
    for (int64_t f = 0; f < width; ++f) sums[f] = (first ? 0 : sums[f]) + fixed_point(load(values[f]), scale);
  });
  return num_slots;
}

template <class T>
void sum_by_voxel(const VoxelizeProblem& problem, const ValueMemory& memory) {
  if (!problem.options.deterministic)
    return sum_as<T>(problem, static_cast<float*>(memory.sums), memory.counts, [](float value) { return value; });
  const double scale = *problem.scale;
  sum_as<T>(problem, static_cast<int64_t*>(memory.sums), memory.counts,
            [scale](float value) { return fixed_point(value, scale); });
}

/// Calls visit(voxel) for voxels with more than `most` points, after prefetching their rows.
template <class Visit>
void for_each_voxel_above(int32_t most, const VoxelizeProblem& problem, const int32_t* counts, const Visit& visit) {
  constexpr int64_t kTogether = 1024;
  const auto* grid = static_cast<const float*>(problem.output);
  const int64_t voxels = num_voxels(problem.grid);
  std::array<int16_t, kTogether> found;
  for (int64_t begin = 0; begin < voxels; begin += kTogether) {
    const int64_t count = std::min(kTogether, voxels - begin);
    int32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, counts[begin + i]);
    if (largest <= most) continue;
    size_t num_found = 0;
    for (int64_t i = 0; i < count; ++i) {  // branch-free, because the branch is unpredictable
      found[num_found] = static_cast<int16_t>(i);
      num_found += counts[begin + i] > most ? 1 : 0;
    }
    for (size_t k = 0; k < num_found; ++k) prefetch_row(grid, problem.num_features, begin + found[k]);
    for (size_t k = 0; k < num_found; ++k) visit(begin + found[k]);
  }
}

/// Writes a voxel's means from its fixed-point sums.
void divide_fixed_point(const VoxelizeProblem& problem, const int64_t* sums, int32_t count, int64_t voxel) {
  float* row = static_cast<float*>(problem.output) + voxel * problem.num_features;
  for (int64_t f = 0; f < problem.num_features; ++f) row[f] = fixed_point_mean(sums[f], count, *problem.scale);
}
void divide_slots(const VoxelizeProblem& problem, const ValueMemory& memory, int64_t num_slots) {
  const int64_t width = problem.num_features;
  const auto ahead = rows_and_counts_ahead(static_cast<float*>(problem.output), width, memory.counts);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    ahead(memory.slots[std::min(slot + kAhead, num_slots - 1)]);
    const int64_t voxel = memory.slots[slot];
    divide_fixed_point(problem, static_cast<const int64_t*>(memory.sums) + slot * width, memory.counts[voxel], voxel);
  }
}

/// Writes means from sums [V, F].
void divide(const VoxelizeProblem& problem, const void* sums, const int32_t* counts) {
  const int64_t width = problem.num_features, voxels = num_voxels(problem.grid);
  auto* grid = static_cast<float*>(problem.output);
  if (problem.options.deterministic) {
    std::fill_n(grid, voxels * width, 0.0f);
    return for_each_voxel_above(0, problem, counts, [&](int64_t v) {
      divide_fixed_point(problem, static_cast<const int64_t*>(sums) + v * width, counts[v], v);
    });
  }
  if (sums != grid) std::copy_n(static_cast<const float*>(sums), voxels * width, grid);
  for_each_voxel_above(1, problem, counts, [&](int64_t v) {  // a single point is its own mean
    for (int64_t f = 0; f < width; ++f) grid[v * width + f] /= static_cast<float>(counts[v]);
  });
}

void finish(const VoxelizeProblem& merged) {
  if (merged.options.mode == VoxelMode::mean) return divide(merged, merged.sums, merged.counts);
  auto* grid = static_cast<float*>(merged.output);
  const int64_t count = num_voxels(merged.grid) * merged.num_features;
  for (int64_t i = 0; i < count; ++i) grid[i] = final_max(grid[i]);
}

template <class T>
void voxelize_mean(const VoxelizeProblem& problem) {
  const ValueMemory memory = value_memory(problem);
  if (memory.slots) return divide_slots(problem, memory, sum_by_slot<T>(problem, memory));
  sum_by_voxel<T>(problem, memory);
  if (!problem.partial) divide(problem, memory.sums, memory.counts);
}

template <class T>
void voxelize_max(const VoxelizeProblem& problem) {
  const ValueMemory memory = value_memory(problem);
  if (!memory.touched) return max_from<T>(problem, problem.options.zero_floor ? 0.0f : kLeast);
  if (max_in_place<T>(problem, memory.touched)) finish(problem);
}

void voxelize_values(const VoxelizeProblem& problem) {
  with_type(problem.feature_type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    problem.options.mode == VoxelMode::mean ? voxelize_mean<T>(problem) : voxelize_max<T>(problem);
  });
}

void voxelize(const VoxelizeProblem& problem) {
  const int64_t voxels = num_voxels(problem.grid);
  auto* grid = static_cast<int32_t*>(problem.output);
  switch (problem.options.mode) {
    case VoxelMode::count:
      std::fill_n(grid, voxels, 0);
      return for_each_point(problem, [grid](int64_t, int64_t voxel) { ++grid[voxel]; });
    case VoxelMode::occupancy:
      std::fill_n(grid, voxels, 0);
      return for_each_point(problem, [grid](int64_t, int64_t voxel) { grid[voxel] = 1; });
    case VoxelMode::bitmask: {
      auto* mask = static_cast<uint32_t*>(problem.output);
      std::fill_n(mask, num_mask_words(problem.grid), 0u);
      return for_each_point(problem, [mask](int64_t, int64_t voxel) { mask[voxel / 32] |= 1u << (voxel % 32); });
    }
    case VoxelMode::mean:
    case VoxelMode::max:
      return voxelize_values(problem);
  }
}

float largest_feature(const VoxelizeProblem& problem) {
  float most = 0;
  with_type(problem.feature_type, [&](auto* type) {
    const auto* features = static_cast<decltype(type)>(const_cast<void*>(problem.features));
    for (int64_t i = 0; i < problem.num_points * problem.num_features; ++i) {
      const float size = std::fabs(load(features[i]));
      if (size > most && size <= std::numeric_limits<float>::max()) most = size;
    }
  });
  return most;
}

}  // namespace

const CpuVoxelKernels AMDAHL_CPU_VOXELS{voxelize, finish, largest_feature};

}  // namespace amdahl

#include "sensor/cpu_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/small_floats.h"
#include "sensor/voxel_values.h"

namespace amdahl {
namespace {

// ---- elements ----

float load(float value) { return value; }
float load(Bfloat value) { return to_float(value); }
float load(Half value) { return to_float(value); }
void store(float& place, float value) { place = value; }
void store(Bfloat& place, float value) { place = to_bfloat(value); }
void store(Half& place, float value) { place = to_half(value); }

/// Calls `work` with a null pointer of the element's type.
template <class Work>
void with_type(ElementType type, const Work& work) {
  if (type == ElementType::bf16) return work(static_cast<Bfloat*>(nullptr));
  if (type == ElementType::f16) return work(static_cast<Half*>(nullptr));
  work(static_cast<float*>(nullptr));
}

// ---- streams onto times ----

/// The samples on both sides of a target, and how far it is from the first towards the second.
struct Place {
  int64_t before = 0, after = 0;
  float weight = 0;
};

/// Index of the last of times[0, n) that is at most t, -1 when none is.
int64_t last_at_most(const float* times, int64_t n, float t) {
  return std::upper_bound(times, times + n, t) - times - 1;
}

Place place_hold(const float* times, int64_t n, float t) {
  const int64_t i = last_at_most(times, n, t);
  if (i < 0) return {0, 0, 0};
  if (i >= n - 1) return {n - 1, n - 1, 0};
  return {i, i + 1, (t - times[i]) / (times[i + 1] - times[i])};
}

constexpr float kOriginalEpsilon = 1e-8f;

float original_weight(const float* times, int64_t i, float t) {
  return (t - times[i]) / (times[i + 1] - times[i] + kOriginalEpsilon);
}

Place place_linear(const float* times, int64_t n, float t) {
  if (n == 1) return {0, 0, 0};
  int64_t i = 0;
  if (t > times[0]) i = t >= times[n - 1] ? n - 2 : std::clamp<int64_t>(last_at_most(times, n, t), 0, n - 2);
  return {i, i + 1, original_weight(times, i, t)};
}

Place place_linear_right(const float* times, int64_t n, float t) {
  const int64_t at = std::min<int64_t>(std::lower_bound(times, times + n, t) - times, n - 1);
  if (at == 0) return {0, 0, 0};
  return {at - 1, at, original_weight(times, at - 1, t)};
}

template <class T>
void interpolate(Extrapolation rule, const T* a, const T* b, float w, T* out, int64_t width) {
  if (a == b) {
    std::memcpy(static_cast<void*>(out), a, static_cast<size_t>(width) * sizeof(T));
  } else if (rule == Extrapolation::hold) {
    for (int64_t i = 0; i < width; ++i) store(out[i], load(a[i]) + w * (load(b[i]) - load(a[i])));
  } else if (rule == Extrapolation::linear) {
    for (int64_t i = 0; i < width; ++i) store(out[i], std::fma(w, load(b[i]) - load(a[i]), load(a[i])));
  } else {
    const float v = 1.0f - w;
    for (int64_t i = 0; i < width; ++i) store(out[i], std::fma(v, load(a[i]), w * load(b[i])));
  }
}

template <class T>
void fuse_as(const FuseProblem& problem) {
  const auto find = problem.extrapolation == Extrapolation::hold     ? place_hold
                    : problem.extrapolation == Extrapolation::linear ? place_linear
                                                                     : place_linear_right;
  auto* out = static_cast<T*>(problem.output);
  for (int64_t b = 0; b < problem.batch; ++b)
    for (int64_t t = 0; t < problem.num_targets; ++t) {
      const float target = problem.targets[b * problem.num_targets + t];
      for (const FuseStream& stream : problem.streams) {
        const Place place = find(stream.times + b * stream.length, stream.length, target);
        const T* rows = static_cast<const T*>(stream.data) + b * stream.length * stream.width;
        interpolate(problem.extrapolation, rows + place.before * stream.width, rows + place.after * stream.width,
                    place.weight, out, stream.width);
        out += stream.width;
      }
    }
}

void fuse(const FuseProblem& problem) {
  with_type(problem.type, [&](auto* type) { fuse_as<std::remove_pointer_t<decltype(type)>>(problem); });
}

// ---- points into voxels ----

constexpr int64_t kBlock = 512;  // points whose voxels are found before their values are added

/// Finds the voxels of some points at once, counts who is in none. `Index` holds any voxel of the grid.
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

  /// Of the points [begin, begin + count); behind these are voxels of earlier ones.
  const std::array<Index, kBlock>& locate(int64_t begin, int64_t count) {
    const float* points = problem_.points + begin * 3;
    for (int64_t i = 0; i < count; ++i)  // an axis side by side, as the loops below take it
      for (size_t axis = 0; axis < 3; ++axis) at_[axis][static_cast<size_t>(i)] = points[i * 3 + axis];
    uint32_t fault = 0;
    for (size_t axis = 0; axis < 3; ++axis) fault |= locate_on(axis, count);
    for (int64_t i = 0; fault != 0 && i < count; ++i)
      if (faults_[static_cast<size_t>(i)] != 0) judge(i, faults_[static_cast<size_t>(i)], begin);
    return voxels_;
  }

 private:
  static constexpr uint32_t kNan = 1, kOutside = 2;

  /// Adds an axis' part of the voxels; returns the faults of all points.
  uint32_t locate_on(size_t axis, int64_t count) {
    const float minimum = problem_.grid.minimum[axis], edge = problem_.grid.voxel_size;
    const auto top = static_cast<float>(problem_.grid.size[axis] - 1);
    const Index stride = stride_[axis];
    const float* at = at_[axis].data();
    const bool first = axis == 0;
    uint32_t all = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float cell = std::floor((at[i] - minimum) / edge);
      const float inside = std::min(std::max(0.0f, cell), top);  // in this order 0 for NaN
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
    if ((fault & kNan) != 0 && !outside_but_nan(begin + i)) return;  // NaN lies in voxel 0 of its axis
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

/// Calls add(point, voxel) for every point that lies in a voxel, and look_ahead(voxel) of some points later.
template <class Index, class Add, class LookAhead>
void for_each_point_by(const VoxelizeProblem& problem, const Add& add, const LookAhead& look_ahead) {
  constexpr int64_t kAhead = 16;
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

/// Brings the row of a voxel towards the core: rows are many and far apart, and the next point's could only be asked
/// for when this one's has come.
template <class Value>
auto rows_ahead(const Value* rows, int64_t width) {
  return [=](int64_t voxel) {
    const auto* row = reinterpret_cast<const char*>(rows + std::max<int64_t>(voxel, 0) * width);
    const int64_t bytes = width * static_cast<int64_t>(sizeof(Value));
    constexpr int64_t kLine = 64, kMost = 4 * kLine;
    for (int64_t at = 0; at < std::min(bytes, kMost); at += kLine) __builtin_prefetch(row + at, 1);
  };
}

template <class T>
void max_as(const VoxelizeProblem& problem) {
  const int64_t width = problem.num_features;
  auto* grid = static_cast<float*>(problem.output);
  const float start = problem.options.zero_floor ? 0.0f : -std::numeric_limits<float>::infinity();
  std::fill_n(grid, num_voxels(problem.grid) * width, start);
  const T* features = static_cast<const T*>(problem.features);
  for_each_point(
      problem,
      [&](int64_t point, int64_t voxel) {
        const T* value = features + point * width;
        float* most = grid + voxel * width;
        for (int64_t f = 0; f < width; ++f) most[f] = larger(most[f], load(value[f]));
      },
      rows_ahead(grid, width));
}

template <class T, class Sum, class Rounded>
void sum_as(const VoxelizeProblem& problem, Sum* sums, int32_t* counts, const Rounded& rounded) {
  const int64_t width = problem.num_features, voxels = num_voxels(problem.grid);
  std::fill_n(sums, voxels * width, Sum{0});
  std::fill_n(counts, voxels, 0);
  const T* features = static_cast<const T*>(problem.features);
  for_each_point(
      problem,
      [&](int64_t point, int64_t voxel) {
        ++counts[voxel];
        for (int64_t f = 0; f < width; ++f) sums[voxel * width + f] += rounded(load(features[point * width + f]));
      },
      rows_ahead(sums, width));
}

template <class T>
void mean_as(const VoxelizeProblem& problem, void* sums, int32_t* counts) {
  if (!problem.options.deterministic)
    return sum_as<T>(problem, static_cast<float*>(sums), counts, [](float value) { return value; });
  const double scale = *problem.scale;
  sum_as<T>(problem, static_cast<int64_t*>(sums), counts, [scale](float value) {
    return value == value && std::fabs(value) <= std::numeric_limits<float>::max()
               ? static_cast<int64_t>(std::nearbyint(static_cast<double>(value) * scale))
               : int64_t{0};
  });
}

/// Means of sums that lie in the output. Most voxels have no more than one point, and theirs are means already.
void divide_in_place(float* grid, int64_t width, const int32_t* counts, int64_t voxels) {
  constexpr int64_t kTogether = 64;
  for (int64_t begin = 0; begin < voxels; begin += kTogether) {
    const int64_t end = std::min(begin + kTogether, voxels);
    int32_t most = 0;
    for (int64_t v = begin; v < end; ++v) most = std::max(most, counts[v]);
    for (int64_t v = begin; most > 1 && v < end; ++v)
      if (counts[v] > 1)
        for (int64_t f = 0; f < width; ++f) grid[v * width + f] /= static_cast<float>(counts[v]);
  }
}

void divide(const VoxelizeProblem& problem, const void* sums, const int32_t* counts) {
  const int64_t width = problem.num_features, voxels = num_voxels(problem.grid);
  auto* grid = static_cast<float*>(problem.output);
  if (!problem.options.deterministic) {
    if (sums != grid) std::copy_n(static_cast<const float*>(sums), voxels * width, grid);
    return divide_in_place(grid, width, counts, voxels);
  }
  const auto* fixed = static_cast<const int64_t*>(sums);
  for (int64_t v = 0; v < voxels; ++v)
    for (int64_t f = 0; f < width; ++f)
      grid[v * width + f] = counts[v] == 0 ? 0.0f : fixed_point_mean(fixed[v * width + f], counts[v], *problem.scale);
}

void finish(const VoxelizeProblem& merged) {
  if (merged.options.mode == VoxelMode::mean) {
    return divide(merged, merged.sums, merged.counts);
  }
  auto* grid = static_cast<float*>(merged.output);
  const int64_t count = num_voxels(merged.grid) * merged.num_features;
  for (int64_t i = 0; i < count; ++i) grid[i] = final_max(grid[i]);
}

void voxelize_values(const VoxelizeProblem& problem) {
  const bool mean = problem.options.mode == VoxelMode::mean;
  const MeanMemory memory = mean_memory(problem);
  with_type(problem.feature_type, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if (mean)
      mean_as<T>(problem, memory.sums, memory.counts);
    else
      max_as<T>(problem);
  });
  if (problem.partial) return;
  if (mean)
    divide(problem, memory.sums, memory.counts);
  else
    finish(problem);
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

const CpuSensorKernels AMDAHL_CPU_SENSOR{fuse, voxelize, finish, largest_feature};

}  // namespace amdahl

// Voxelize: reads a cloud from a file and writes a grid to a file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "amdahl/error.h"
#include "amdahl/sensor.h"
#include "sensor/ops/checks.h"
#include "sensor/verbs/memory.h"

namespace amdahl {
namespace {

struct Extent {
  std::array<float, 3> low, high;
  bool empty = true;
};

/// Extent of the points with finite coordinates.
Extent extent_of(const PointCloud& cloud) {
  Extent extent;
  extent.low.fill(std::numeric_limits<float>::infinity());
  extent.high.fill(-std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < cloud.points.size(); i += 3) {
    const float* point = cloud.points.data() + i;
    if (!std::isfinite(point[0]) || !std::isfinite(point[1]) || !std::isfinite(point[2])) continue;
    extent.empty = false;
    for (size_t axis = 0; axis < 3; ++axis) {
      extent.low[axis] = std::min(extent.low[axis], point[axis]);
      extent.high[axis] = std::max(extent.high[axis], point[axis]);
    }
  }
  return extent;
}

/// The largest float at or below a border, so that a point on the border is inside.
float at_most(double border, float point) {
  const auto rounded = static_cast<float>(border);
  return rounded <= point ? rounded : std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

float fitted_minimum(const VoxelizeConfig& config, const Extent& extent, size_t axis) {
  const auto low = static_cast<double>(extent.low[axis]), high = static_cast<double>(extent.high[axis]);
  if (!config.size) return at_most(std::floor(low / config.voxel_size) * config.voxel_size, extent.low[axis]);
  const double edge = static_cast<double>((*config.size)[axis]) * config.voxel_size;
  return static_cast<float>((low + high) / 2 - edge / 2);
}

/// Number of voxels up to the one that contains `high`, with the arithmetic of the operation.
int64_t fitted_size(const VoxelGrid& grid, float high, size_t axis) {
  constexpr float kMost = 1 << 24;  // voxels of an axis; floats represent all integers up to it
  const float last = std::floor((high - grid.minimum[axis]) / grid.voxel_size);
  if (last >= kMost)
    throw Error(Cause::usage,
                fmt::format("the points reach {} voxels of {} along {}", last, grid.voxel_size, "xyz"[axis]),
                fmt::format("a larger `voxel_size`, or `minimum` and `size`; at most {} voxels per axis", kMost));
  return std::max<int64_t>(1, static_cast<int64_t>(last) + 1);
}

void place_grid(const VoxelizeConfig& config, VoxelizeOutcome& outcome) {
  VoxelGrid& grid = outcome.grid;
  grid.voxel_size = static_cast<float>(config.voxel_size);
  outcome.fitted_minimum = !config.minimum;
  outcome.fitted_size = !config.size;
  if (!(grid.voxel_size > 0) || !std::isfinite(grid.voxel_size))
    throw Error(Cause::usage, fmt::format("`voxel_size` is {}", config.voxel_size), "a positive length");
  Extent extent;
  if (outcome.fitted_minimum || outcome.fitted_size) extent = extent_of(outcome.cloud);
  if ((outcome.fitted_minimum || outcome.fitted_size) && extent.empty)
    throw Error(Cause::usage, fmt::format("{} has no finite point to fit a grid around", config.input),
                "`minimum` and `size`");
  for (size_t axis = 0; axis < 3; ++axis) {
    grid.minimum[axis] =
        config.minimum ? static_cast<float>((*config.minimum)[axis]) : fitted_minimum(config, extent, axis);
    grid.size[axis] = config.size ? (*config.size)[axis] : fitted_size(grid, extent.high[axis], axis);
  }
  check_grid(grid);
}

std::vector<int64_t> output_shape(const VoxelizeOutcome& outcome, const VoxelizeOptions& options) {
  if (options.mode == VoxelMode::bitmask) return {num_mask_words(outcome.grid)};
  std::vector<int64_t> shape(outcome.grid.size.begin(), outcome.grid.size.end());
  if (options.layout == VoxelLayout::zyx) std::swap(shape[0], shape[2]);
  if (has_values(options.mode)) shape.push_back(outcome.cloud.num_features);
  return shape;
}

/// Counts the points per voxel, independent of the mode.
void count_points(SensorMemory& memory, const ConstTensor& points, const VoxelizeOptions& options,
                  VoxelizeOutcome& outcome) {
  VoxelizeOptions counting = options;
  counting.mode = VoxelMode::count;
  VoxelizeOutcome shaped = {};
  shaped.grid = outcome.grid;
  const Tensor grid = memory.allocate(DType::i32, output_shape(shaped, counting));
  outcome.stats = memory.preprocessor().voxelize_pointcloud(points, {}, outcome.grid, grid, counting);
  const auto* counts = static_cast<const int32_t*>(memory.fetch(grid));
  for (int64_t i = 0; i < num_voxels(outcome.grid); ++i) {
    outcome.num_occupied += counts[i] != 0;
    outcome.max_per_voxel = std::max<int64_t>(outcome.max_per_voxel, counts[i]);
  }
}

void save_grid(const VoxelizeConfig& config, const VoxelizeOutcome& outcome, DType type, const void* data) {
  const FileArray grid{"grid", type, outcome.shape, data};
  if (!config.output.ends_with(".npz")) {
    save_array(config.output, grid);
    return;
  }
  save_arrays(config.output, {grid,
                              {"minimum", DType::f32, {3}, outcome.grid.minimum.data()},
                              {"voxel_size", DType::f32, {}, &outcome.grid.voxel_size}});
}

void make_grid(const VoxelizeConfig& config, VoxelizeOutcome& outcome) {
  SensorMemory memory(config.place);
  outcome.device = memory.device_name();
  const std::vector<int64_t> points_shape{outcome.cloud.num_points, 3};
  count_points(memory, memory.put(outcome.cloud.points, points_shape), config.options, outcome);
  if (config.output.empty()) return;
  memory.clear();
  const ConstTensor points = memory.put(outcome.cloud.points, points_shape);
  const bool values = has_values(config.options.mode);
  const ConstTensor features =
      values ? memory.put(outcome.cloud.features, {outcome.cloud.num_points, outcome.cloud.num_features})
             : ConstTensor{};
  const bool mask = config.options.mode == VoxelMode::bitmask;
  const Tensor grid = memory.allocate(mask ? DType::u32 : (values ? DType::f32 : DType::i32), outcome.shape);
  memory.preprocessor().voxelize_pointcloud(points, features, outcome.grid, grid, config.options);
  save_grid(config, outcome, mask ? DType::u32 : (values ? DType::f32 : DType::i32), memory.fetch(grid));
}

}  // namespace

VoxelizeOutcome run_voxelize(const VoxelizeConfig& config) {
  require_array_output(config.output);
  VoxelizeOutcome outcome;
  outcome.mode = config.options.mode;
  outcome.cloud = load_point_cloud(config.input, config.file);
  for (const std::string& warning : outcome.cloud.warnings) outcome.warnings.push_back(named(warning));
  if (has_values(outcome.mode) && outcome.cloud.num_features == 0)
    throw Error(Cause::usage,
                fmt::format("{} has no features, and mode {} needs them", config.input, to_string(outcome.mode)),
                "`mode=count`, occupancy or bitmask, or a cloud with more columns than x, y and z");
  place_grid(config, outcome);
  outcome.shape = output_shape(outcome, config.options);
  constexpr double kVisible = 0.01;  // fraction of a voxel
  if (outcome.cloud.rounding > kVisible * config.voxel_size)
    outcome.warnings.push_back(fmt::format(
        "coordinates changed by up to {:.3g} by becoming floats, and a voxel is {:.3g}: subtract an offset in the file",
        outcome.cloud.rounding, config.voxel_size));
  if (has_values(outcome.mode))
    outcome.warnings.insert(outcome.warnings.end(), outcome.cloud.feature_warnings.begin(),
                            outcome.cloud.feature_warnings.end());
  make_grid(config, outcome);
  return outcome;
}

}  // namespace amdahl

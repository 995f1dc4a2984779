#include "sensor/ops/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

namespace amdahl {
namespace {

constexpr int64_t kAny = -1;  // any extent, in an expected shape
/// Floats represent indices along an axis exactly up to this number.
constexpr int64_t kMostVoxelsOfAxis = int64_t{1} << 24;
constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max();  // along an axis: kernels index it with 32 bits
constexpr int64_t kMostElements = std::numeric_limits<int64_t>::max() / 64;

std::string place_of(int device) { return device < 0 ? "host memory" : fmt::format("GPU {}", device); }

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// One argument and the checks of its properties.
class Argument {
 public:
  Argument(std::string name, const ConstTensor& tensor) : name_(std::move(name)), tensor_(tensor) {}
  Argument(std::string name, const Tensor& tensor)
      : name_(std::move(name)), tensor_{tensor.data, tensor.dtype, tensor.shape, tensor.device, tensor.strides} {}

  /// `shape` may contain kAny; `letters` names the axes in messages.
  const Argument& has_shape(const std::vector<int64_t>& shape, const char* letters) const {
    bool fits = tensor_.shape.size() == shape.size();
    if (!fits)
      refuse(fmt::format("has {} dimensions", tensor_.shape.size()),
             fmt::format("{} dimensions {}", shape.size(), letters));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (tensor_.shape[i] < 0) refuse(fmt::format("has shape {}", shape_text(tensor_.shape)), "no negative extents");
      if (tensor_.shape[i] > kMostExtent)
        refuse(fmt::format("has shape {}", shape_text(tensor_.shape)),
               "at most 2^31 - 1 along an axis, in several calls");
      fits = fits && (shape[i] == kAny || shape[i] == tensor_.shape[i]);
    }
    if (!fits) {
      std::string wanted;
      for (const int64_t extent : shape)
        wanted += (wanted.empty() ? "" : ", ") + (extent == kAny ? "any" : fmt::to_string(extent));
      refuse(fmt::format("has shape {}", shape_text(tensor_.shape)), fmt::format("{} = [{}]", letters, wanted));
    }
    return *this;
  }

  const Argument& has_type(std::initializer_list<DType> types) const {
    std::vector<std::string_view> names;
    for (const DType type : types) {
      if (type == tensor_.dtype) return *this;
      names.push_back(to_string(type));
    }
    refuse(fmt::format("is {}", to_string(tensor_.dtype)), fmt::format("{}", fmt::join(names, " or ")));
    return *this;
  }

  /// Also checks that a tensor with elements has data and is dense.
  const Argument& lies_on(int device) const {
    if (tensor_.device != device)
      refuse(fmt::format("lies in {}", place_of(tensor_.device)),
             fmt::format("{}, where the call runs", place_of(device)));
    if (elements() > 0 && !tensor_.data) refuse("has elements but no data", "a pointer to its memory");
    if (!tensor_.is_dense())
      refuse(fmt::format("has strides {}", shape_text(tensor_.strides)), "a dense row-major array, a copy of this one");
    return *this;
  }

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : tensor_.shape) {
      if (extent > 0 && count > kMostElements / extent)
        refuse(fmt::format("has shape {}", shape_text(tensor_.shape)), "fewer elements than 2^57");
      count *= extent;
    }
    return count;
  }

 private:
  [[noreturn]] void refuse(const std::string& is, const std::string& wanted) const {
    throw Error(Cause::usage, fmt::format("{} {}", name_, is), wanted);
  }

  std::string name_;
  ConstTensor tensor_;
};

int64_t extent(const std::vector<int64_t>& shape, size_t axis) { return axis < shape.size() ? shape[axis] : kAny; }

}  // namespace

FuseProblem check_fuse(const std::vector<SensorStream>& streams, const std::vector<std::string>& names,
                       const ConstTensor& target_times, const Tensor& output, const FuseOptions& options, int device) {
  if (streams.empty()) throw Error(Cause::usage, "streams is empty", "at least one stream");
  FuseProblem problem;
  problem.extrapolation = options.extrapolation;
  problem.type = streams.front().data.dtype;
  Argument("target_times", target_times).has_shape({kAny, kAny}, "[B, T]").has_type({DType::f32}).lies_on(device);
  problem.batch = target_times.shape[0], problem.num_targets = target_times.shape[1];
  problem.targets = static_cast<const float*>(target_times.data);
  int64_t width = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    const SensorStream& stream = streams[i];
    const std::string& name = names[i];
    Argument(name + ".data", stream.data)
        .has_shape({problem.batch, kAny, kAny}, "[B, S, D]")
        .has_type({DType::f32, DType::bf16, DType::f16})
        .lies_on(device);
    if (stream.data.dtype != problem.type)
      throw Error(Cause::usage,
                  fmt::format("{}.data is {} and streams[0].data is {}", name, to_string(stream.data.dtype),
                              to_string(problem.type)),
                  "one type for all streams");
    Argument(name + ".times", stream.times)
        .has_shape({problem.batch, stream.data.shape[1]}, "[B, S]")
        .has_type({DType::f32})
        .lies_on(device);
    if (stream.data.shape[1] < 1 && problem.batch * problem.num_targets > 0)
      throw Error(Cause::usage, fmt::format("{} has no samples", name), "at least one along S");
    problem.streams.push_back(
        {stream.data.data, static_cast<const float*>(stream.times.data), stream.data.shape[1], stream.data.shape[2]});
    width += stream.data.shape[2];
  }
  Argument("output", output)
      .has_shape({problem.batch, problem.num_targets, width}, "[B, T, sum of D]")
      .has_type({problem.type})
      .lies_on(device);
  problem.output = output.data;
  return problem;
}

void check_grid(const VoxelGrid& grid) {
  if (!(grid.voxel_size > 0) || !std::isfinite(grid.voxel_size))
    throw Error(Cause::usage, fmt::format("voxel_size is {}", grid.voxel_size), "a positive number");
  int64_t voxels = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (!std::isfinite(grid.minimum[axis]))
      throw Error(Cause::usage, fmt::format("grid minimum is {}", grid.minimum[axis]), "finite coordinates");
    if (grid.size[axis] < 1 || grid.size[axis] > kMostVoxelsOfAxis)
      throw Error(Cause::usage, fmt::format("grid size is {}", fmt::join(grid.size, " x ")),
                  fmt::format("1 to {} voxels per axis", kMostVoxelsOfAxis));
    if (voxels > kMostElements / grid.size[axis])
      throw Error(Cause::usage, fmt::format("grid size is {}", fmt::join(grid.size, " x ")), "fewer voxels than 2^57");
    voxels *= grid.size[axis];
  }
}

VoxelizeProblem check_voxelize(const ConstTensor& points, const ConstTensor& features, const VoxelGrid& grid,
                               const Tensor& output, const VoxelizeOptions& options, int device) {
  check_grid(grid);
  Argument("points", points).has_shape({kAny, 3}, "[N, 3]").has_type({DType::f32}).lies_on(device);
  VoxelizeProblem problem;
  problem.points = static_cast<const float*>(points.data);
  problem.num_points = points.shape[0];
  problem.grid = grid;
  problem.options = options;
  problem.output = output.data;
  std::vector<int64_t> shape{grid.size[0], grid.size[1], grid.size[2]};
  if (options.layout == VoxelLayout::zyx) std::swap(shape[0], shape[2]);
  const bool values = has_values(options.mode);
  if (options.mode == VoxelMode::bitmask) {
    Argument("output", output).has_shape({num_mask_words(grid)}, "[words]").has_type({DType::u32}).lies_on(device);
  } else if (!values) {
    const char* letters = options.layout == VoxelLayout::xyz ? "[X, Y, Z]" : "[Z, Y, X]";
    Argument("output", output).has_shape(shape, letters).has_type({DType::i32}).lies_on(device);
  } else {
    if (features.shape.empty())
      throw Error(Cause::usage, fmt::format("features is missing: mode {} needs them", to_string(options.mode)),
                  "features [N, F]");
    Argument("features", features)
        .has_shape({problem.num_points, kAny}, "[N, F]")
        .has_type({DType::f32, DType::bf16, DType::f16})
        .lies_on(device);
    problem.features = features.data;
    problem.feature_type = features.dtype;
    problem.num_features = extent(features.shape, 1);
    shape.push_back(problem.num_features);
    const char* letters = options.layout == VoxelLayout::xyz ? "[X, Y, Z, F]" : "[Z, Y, X, F]";
    Argument("output", output).has_shape(shape, letters).has_type({DType::f32}).lies_on(device);
  }
  return problem;
}

void require_good_times(const TimesFault& fault, const std::string& name, int64_t length) {
  if (!fault.found()) return;
  const std::string where =
      fmt::format("{} at batch {}, position {}", name, fault.index() / length, fault.index() % length);
  if (fault.non_finite()) throw Error(Cause::non_finite, where + " is not finite", "finite times");
  throw Error(Cause::data_corrupt, where + " is below the time before it", "times that do not fall along S");
}

}  // namespace amdahl

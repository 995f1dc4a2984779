// amdahl_lab._native: the class Preprocessor of include/amdahl/sensor.h on arrays that export DLPack. The Python side
// (amdahl_lab/_preprocess.py) makes arrays dense, allocates outputs and chooses the stream.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/sensor.h"

namespace nb = nanobind;

namespace {

using amdahl::Cause;
using amdahl::Error;
using Input = nb::ndarray<nb::ro>;
using Output = nb::ndarray<>;

template <class Tensor, class Array>
Tensor tensor_of(const std::string& name, const Array& array) {
  try {
    const nb::dlpack::dtype type = array.dtype();
    Tensor tensor(array.data(), amdahl::dtype_of_dlpack(type.code, type.bits, type.lanes), {},
                  amdahl::device_of_dlpack(array.device_type(), array.device_id()));
    for (size_t i = 0; i < array.ndim(); ++i) {
      tensor.shape.push_back(array.shape(i));
      tensor.strides.push_back(array.stride(i));
    }
    return tensor;
  } catch (const Error& error) {
    throw Error(error.cause(), name + ": " + error.what(), error.remedy());
  }
}

amdahl::ConstTensor input_of(const std::string& name, const Input& array) {
  return tensor_of<amdahl::ConstTensor>(name, array);
}

template <class Value>
Value named_value(const std::string& what, const std::string& name, const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (const Value value : values) {
    names.emplace_back(to_string(value));
    if (names.back() == name) return value;
  }
  throw Error(Cause::usage, "unknown " + what + " '" + name + "'", amdahl::choices_hint(name, names));
}

amdahl::FuseOptions fuse_options(const std::string& extrapolation, bool check_times) {
  using amdahl::Extrapolation;
  return {named_value<Extrapolation>("extrapolation", extrapolation,
                                     {Extrapolation::hold, Extrapolation::linear, Extrapolation::linear_right}),
          check_times};
}

amdahl::VoxelMode mode_of(const std::string& name) {
  using amdahl::VoxelMode;
  return named_value<VoxelMode>(
      "mode", name, {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean, VoxelMode::max});
}

amdahl::VoxelLayout layout_of(const std::string& name) {
  using amdahl::VoxelLayout;
  return named_value<VoxelLayout>("layout", name, {VoxelLayout::xyz, VoxelLayout::zyx});
}

amdahl::OutOfBounds bounds_of(const std::string& name) {
  if (name == "drop") return amdahl::OutOfBounds::drop;
  if (name == "clamp") return amdahl::OutOfBounds::clamp;
  throw Error(Cause::usage, "unknown bounds '" + name + "'", amdahl::choices_hint(name, {"drop", "clamp"}));
}

/// `gpu` < 0: the host. `stream`: a cudaStream_t, of which 1 is the legacy default stream.
amdahl::Preprocessor make_preprocessor(int gpu, uintptr_t stream) {
  if (gpu < 0) return amdahl::Preprocessor::on_host();
  return amdahl::Preprocessor::on_gpu(gpu, reinterpret_cast<void*>(stream));
}

using Stream = std::pair<Input, Input>;  // data, times

amdahl::SensorStream stream_of(const std::string& name, const Stream& stream) {
  return {input_of(name + ".data", stream.first), input_of(name + ".times", stream.second)};
}

void fuse(amdahl::Preprocessor& self, const std::vector<Stream>& streams, const Input& target_times,
          const Output& output, const std::string& extrapolation, bool check_times) {
  std::vector<amdahl::SensorStream> sources;
  for (size_t i = 0; i < streams.size(); ++i)
    sources.push_back(stream_of("streams[" + std::to_string(i) + "]", streams[i]));
  const amdahl::ConstTensor targets = input_of("target_times", target_times);
  const auto result = tensor_of<amdahl::Tensor>("output", output);
  const amdahl::FuseOptions options = fuse_options(extrapolation, check_times);
  const nb::gil_scoped_release released;
  self.fuse_multimodal(sources, targets, result, options);
}

void resample(amdahl::Preprocessor& self, const Stream& trajectory, const Input& target_times, const Output& output,
              const std::string& extrapolation, bool check_times) {
  const amdahl::SensorStream source = stream_of("trajectory", trajectory);
  const amdahl::ConstTensor targets = input_of("target_times", target_times);
  const auto result = tensor_of<amdahl::Tensor>("output", output);
  const amdahl::FuseOptions options = fuse_options(extrapolation, check_times);
  const nb::gil_scoped_release released;
  self.resample_trajectories(source, targets, result, options);
}

/// The fields of amdahl::VoxelizeOptions, and amdahl::VoxelGrid, by name.
struct VoxelArguments {
  VoxelArguments(std::array<float, 3> lowest, float edge, std::array<int64_t, 3> extents, std::string mode_name,
                 std::string layout_name, std::string bounds_name, bool fixed_point, bool floor, bool fast)
      : minimum(lowest),
        voxel_size(edge),
        size(extents),
        mode(std::move(mode_name)),
        layout(std::move(layout_name)),
        bounds(std::move(bounds_name)),
        deterministic(fixed_point),
        zero_floor(floor),
        fast_quotient(fast) {}

  std::array<float, 3> minimum;
  float voxel_size;
  std::array<int64_t, 3> size;
  std::string mode, layout, bounds;
  bool deterministic, zero_floor, fast_quotient;
};

nb::tuple voxelize(amdahl::Preprocessor& self, const Input& points, const std::optional<Input>& features,
                   const Output& output, const VoxelArguments& arguments) {
  const amdahl::ConstTensor coordinates = input_of("points", points);
  const amdahl::ConstTensor values = features ? input_of("features", *features) : amdahl::ConstTensor();
  auto result = tensor_of<amdahl::Tensor>("output", output);
  const amdahl::VoxelGrid grid{arguments.minimum, arguments.voxel_size, arguments.size};
  const amdahl::VoxelizeOptions options{mode_of(arguments.mode),     layout_of(arguments.layout),
                                        bounds_of(arguments.bounds), arguments.deterministic,
                                        arguments.zero_floor,        arguments.fast_quotient};
  // Not every library has a type of 32 unsigned bits for the words of a mask.
  if (options.mode == amdahl::VoxelMode::bitmask && result.dtype == amdahl::DType::i32)
    result.dtype = amdahl::DType::u32;
  amdahl::VoxelizeStats stats;
  {
    const nb::gil_scoped_release released;
    stats = self.voxelize_pointcloud(coordinates, values, grid, result, options);
  }
  return nb::make_tuple(stats.num_points, stats.num_nan, stats.num_outside);
}

/// amdahl::Error becomes amdahl_lab.Error.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("amdahl_lab._error").attr("Error");
    const nb::object value = type(std::string(to_string(error.cause())), std::string(error.what()), error.remedy(),
                                  amdahl::exit_code(error.cause()));
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace

NB_MODULE(_native, module) {
  using namespace nb::literals;
  module.doc() = "Operations of libamdahl on arrays with DLPack. Use amdahl_lab.Preprocessor.";
  nb::register_exception_translator(translate);
  nb::class_<VoxelArguments>(module, "VoxelArguments")
      .def(nb::init<std::array<float, 3>, float, std::array<int64_t, 3>, std::string, std::string, std::string, bool,
                    bool, bool>(),
           "minimum"_a, "voxel_size"_a, "size"_a, "mode"_a, "layout"_a, "bounds"_a, "deterministic"_a, "zero_floor"_a,
           "fast_quotient"_a);
  nb::class_<amdahl::Preprocessor>(module, "Preprocessor")
      .def(nb::new_(&make_preprocessor), "gpu"_a, "stream"_a)
      .def("fuse_multimodal", fuse, "streams"_a, "target_times"_a, "output"_a, "extrapolation"_a, "check_times"_a)
      .def("resample_trajectories", resample, "trajectory"_a, "target_times"_a, "output"_a, "extrapolation"_a,
           "check_times"_a)
      .def("voxelize_pointcloud", voxelize, "points"_a, "features"_a.none(), "output"_a, "arguments"_a)
      .def("synchronize", &amdahl::Preprocessor::synchronize, nb::call_guard<nb::gil_scoped_release>());
}

#include "sensor/verbs/memory.h"

#include <fmt/format.h>

#include "amdahl/report.h"
#include "amdahl/sensor.h"

namespace amdahl {
namespace {

constexpr double kCopySeconds = 60;
constexpr const char* kSmaller = "larger voxels, a smaller grid, or fewer targets";

/// The GPU's index, or -1 for the host.
int choose_index(const SensorPlace& place) {
  if (place.backend == "cpu") return -1;
  if (place.backend == "cuda") return place.gpu;
  if (place.backend == "auto") return cuda_availability().ok && !list_cuda_devices().empty() ? place.gpu : -1;
  throw Error(Cause::usage, fmt::format("`backend`: unknown value '{}'", place.backend),
              choices_hint(place.backend, {"auto", "cpu", "cuda"}));
}

std::unique_ptr<Device> make_device(int index) {
  return std::move((index < 0 ? make_cpu_devices(1) : make_cuda_devices({index})).front());
}

}  // namespace

SensorMemory::SensorMemory(const SensorPlace& place)
    : index_(choose_index(place)),
      device_(make_device(index_)),
      stream_(device_->make_stream("files")),
      preprocessor_(index_ < 0 ? Preprocessor::on_host() : Preprocessor::on_gpu(index_)),
      name_(index_ < 0 ? "CPU" : fmt::format("GPU {}, {}", index_, device_->spec().name)) {}

void* SensorMemory::allocate_bytes(size_t bytes) {
  try {
    return buffers_.emplace_back(device_->allocate(bytes))->data();
  } catch (const Error& error) {
    if (error.cause() != Cause::out_of_memory) throw;
    throw Error(Cause::out_of_memory, error.what(), kSmaller);
  }
}

void SensorMemory::synchronize() { stream_->synchronize(Deadline::after_seconds(kCopySeconds)); }

ConstTensor SensorMemory::put(const std::vector<float>& values, std::vector<int64_t> shape) {
  const size_t bytes = values.size() * sizeof(float);
  void* data = allocate_bytes(bytes);
  device_->copy_in(*stream_, data, values.data(), bytes);
  synchronize();
  return {data, DType::f32, std::move(shape), index_, {}};
}

Tensor SensorMemory::allocate(DType type, std::vector<int64_t> shape) {
  size_t bytes = size_of(type);
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes))
      throw Error(Cause::out_of_memory, fmt::format("an array cannot have {} elements per row", extent), kSmaller);
  return {allocate_bytes(bytes), type, std::move(shape), index_, {}};
}

const void* SensorMemory::fetch(const Tensor& tensor) {
  preprocessor_.synchronize();
  if (index_ < 0) return tensor.data;
  size_t bytes = size_of(tensor.dtype);
  for (const int64_t extent : tensor.shape) bytes *= static_cast<size_t>(extent);
  fetched_.resize(bytes);
  device_->copy_out(*stream_, fetched_.data(), tensor.data, bytes);
  synchronize();
  return fetched_.data();
}

void require_array_output(const std::string& path) {
  if (!path.empty() && !path.ends_with(".npy") && !path.ends_with(".npz") && !is_stream(path))
    throw Error(Cause::usage, fmt::format("`output` '{}' is no array's name", path),
                "a name that ends in .npy or .npz");
}

}  // namespace amdahl

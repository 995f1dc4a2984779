// Memory on the device of a Preprocessor, for arrays that are read from and written to files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "device/device.h"

namespace amdahl {

class SensorMemory {
 public:
  /// Error{environment_missing} when the backend is not available.
  explicit SensorMemory(const SensorPlace& place);

  /// Works on tensors that put() and allocate() returned.
  Preprocessor& preprocessor() { return preprocessor_; }
  const std::string& device_name() const { return name_; }

  ConstTensor put(const std::vector<float>& values, std::vector<int64_t> shape);
  /// Error{out_of_memory} when it does not fit.
  Tensor allocate(DType type, std::vector<int64_t> shape);
  /// Copies the elements to host memory; valid until the next call of `fetch` or `clear`.
  const void* fetch(const Tensor& tensor);
  /// Frees all tensors that `put` and `allocate` returned.
  void clear() { buffers_.clear(); }

 private:
  void* allocate_bytes(size_t bytes);
  void synchronize();

  int index_;  // index of the GPU; -1: host
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Preprocessor preprocessor_;
  std::string name_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<char> fetched_;
};

/// Error{usage} unless the output of a verb is empty, a name that ends in .npy or .npz, or a device or pipe, which
/// receives .npy.
void require_array_output(const std::string& path);

}  // namespace amdahl

// Memory of the device that a Preprocessor computes on, for arrays that come from files and go to files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "amdahl/sensor_files.h"
#include "device/device.h"

namespace amdahl {

class SensorMemory {
 public:
  /// Error{environment_missing} when the backend is not here.
  explicit SensorMemory(const SensorPlace& place);

  /// For tensors that lie here.
  Preprocessor& preprocessor() { return preprocessor_; }
  const std::string& device_name() const { return name_; }

  ConstTensor put(const std::vector<float>& values, std::vector<int64_t> shape);
  /// Error{out_of_memory} when it does not fit.
  Tensor allocate(DType type, std::vector<int64_t> shape);
  /// The elements in host memory, valid until the next call of `fetch` or `clear`.
  const void* fetch(const Tensor& tensor);
  /// Frees everything that `put` and `allocate` gave.
  void clear() { buffers_.clear(); }

 private:
  void* allocate_bytes(size_t bytes);
  void synchronize();

  int index_;  // of the GPU; -1: host
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Preprocessor preprocessor_;
  std::string name_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<char> fetched_;
};

/// Error{usage} unless a verb's output is empty, a name that ends in .npy or .npz, or a device or pipe, which gets
/// .npy.
void require_array_output(const std::string& path);

}  // namespace amdahl

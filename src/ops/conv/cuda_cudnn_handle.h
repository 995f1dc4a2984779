// cuDNN, opened at run time: programs start without it. Included only by files that are built with cuDNN's headers.
#pragma once

#include <cudnn.h>

#include <memory>

#include "amdahl/error.h"

namespace amdahl {

/// A handle of the device that is current when it is opened. The library stays loaded.
class CudnnHandle {
 public:
  /// Null, with the reason in `why`, where the library or one of its functions is missing.
  static std::unique_ptr<CudnnHandle> open(int device_index, Availability& why);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t get() const { return handle_; }
  /// The handle, for work on `stream`. Throws Error{device_error}.
  cudnnHandle_t on(cudaStream_t stream) const;

 private:
  explicit CudnnHandle(int device_index) : device_index_(device_index) {}

  int device_index_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace amdahl

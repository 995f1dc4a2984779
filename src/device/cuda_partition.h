// A part of a GPU's multiprocessors as a device of its own: a green context of the driver, and the streams in it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace amdahl {

/// Kernels on its streams run on its multiprocessors only, captured ones too. Memory, events and graphs stay those of
/// the device's primary context, which must exist. Outlives its streams.
class CudaPartition {
 public:
  /// About `share` (above 0, below 1) of the GPU's `all_sms` multiprocessors: the nearest whole number of the groups
  /// that the hardware divides into, 8 on Hopper. Error{usage} for less than the smallest group,
  /// Error{environment_missing} for a driver before CUDA 12.5.
  CudaPartition(int device_index, int all_sms, double share);
  ~CudaPartition();
  CudaPartition(const CudaPartition&) = delete;
  CudaPartition& operator=(const CudaPartition&) = delete;

  int num_sms() const { return num_sms_; }
  /// Does not synchronize with the legacy stream; the caller destroys it.
  cudaStream_t make_stream(int priority) const;

 private:
  int device_index_;
  int num_sms_ = 0;
  CUgreenCtx context_ = nullptr;
};

}  // namespace amdahl

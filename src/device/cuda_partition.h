// A part of a GPU's multiprocessors as a device of its own: a green context of the driver, and the streams in it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace amdahl {

/// Kernels on its streams run on its multiprocessors only, captured ones too. Memory, events and graphs stay those of
/// the device's primary context, which must exist. Outlives its streams.
class CudaPartition {
 public:
  /// What `groups` of the GPU's multiprocessors have together, which one split has made.
  CudaPartition(int device_index, std::vector<CUdevResource> groups);
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

/// A part for each of `shares` (above 0, below 1), of about so much of the GPU's multiprocessors: the nearest whole
/// number of the groups that the hardware divides into, 8 on Hopper. They have none in common. Error{usage} for less
/// than the smallest group, Error{environment_missing} for more than there is, or a driver before CUDA 12.5.
std::vector<std::shared_ptr<const CudaPartition>> divide_gpu(int device_index, const std::vector<double>& shares);

}  // namespace amdahl

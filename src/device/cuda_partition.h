// Partition of a GPU's multiprocessors: a green context of the driver, and its streams.
//
// Fewer blocks per launch would emulate no smaller GPU: few blocks saturate memory, and the GPU stayed as fast as a
// whole one. Partitions made by one split have no multiprocessor in common, so kernels that wait for each other can run
// beside each other; what a split leaves over cannot be split again.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace amdahl {

/// Kernels on its streams, captured or not, run on its multiprocessors only. Memory, events and graphs belong to the
/// device's primary context, which must exist. Must outlive its streams.
class CudaPartition {
 public:
  /// The union of `groups` of the GPU's multiprocessors, all made by one split.
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

/// One partition per share, in (0, 1): the share of the GPU's multiprocessors rounded to the hardware's groups, 8
/// multiprocessors on Hopper. Partitions are disjoint. Error{usage} for a share below the smallest group;
/// Error{environment_missing} when the GPU has too few multiprocessors, or for a driver before CUDA 12.5.
std::vector<std::shared_ptr<const CudaPartition>> divide_gpu(int device_index, const std::vector<double>& shares);

}  // namespace amdahl

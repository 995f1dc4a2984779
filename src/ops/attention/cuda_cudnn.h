// Attention by cuDNN's fused kernels for bf16 and f16. The library is opened at run time: programs start without it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "ops/ops.h"

namespace amdahl {

class CudnnAttention {
 public:
  /// Null where cuDNN is not part of this build, or does not load. The device must be current.
  static std::unique_ptr<CudnnAttention> open(int device_index);
  virtual ~CudnnAttention() = default;

  /// Bytes of workspace that a problem needs, 0 included; absent where cuDNN does not support it. The first call for a
  /// problem builds its plan, which takes a part of a second.
  virtual std::optional<size_t> workspace_bytes(const AttentionShape& shape, bool backward) = 0;
  /// Only for problems that are supported. Pointers of elements must be 16-byte aligned. The bits of a gradient may
  /// differ from run to run.
  virtual void forward(cudaStream_t stream, void* workspace, const AttentionForward& a) = 0;
  virtual void backward(cudaStream_t stream, void* workspace, const AttentionBackward& a) = 0;
};

}  // namespace amdahl

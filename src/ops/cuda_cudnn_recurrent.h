// Recurrent layers by cuDNN, for f32 in fp32 and tf32. The library is opened at run time: programs start without it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "ops/ops.h"
#include "ops/recurrent_ops.h"

namespace amdahl {

/// "standard", "persist static", "persist dynamic".
inline constexpr int kCudnnRecurrentAlgorithms = 3;
const char* cudnn_recurrent_name(int algorithm);

class CudnnRecurrent {
 public:
  /// Null where cuDNN is not part of this build, or does not load. The device must be current.
  static std::unique_ptr<CudnnRecurrent> open(int device_index, MathMode math);
  virtual ~CudnnRecurrent() = default;

  /// Memory that forward keeps for backward, and that a call of either uses besides; both 256-byte aligned.
  struct Bytes {
    size_t kept, scratch;
  };
  /// Absent where cuDNN does not have the algorithm for the shape. The first call for a shape builds its plan: not
  /// inside a capture.
  virtual std::optional<Bytes> bytes(const RecurrentShape& shape, int algorithm) = 0;
  /// Only for what is supported; RecurrentForward::saved and RecurrentBackward::saved are not used. Throws
  /// Error{device_error}.
  virtual void forward(cudaStream_t stream, int algorithm, const RecurrentForward& a, void* kept, void* scratch) = 0;
  virtual void backward(cudaStream_t stream, int algorithm, const RecurrentBackward& a, void* kept, void* scratch) = 0;
};

}  // namespace amdahl

// Convolutions by cuDNN. The library is opened at run time: programs start without it.
#pragma once

#include <memory>

#include "ops/cuda_context.h"

namespace amdahl {

/// Chooses among cuDNN's algorithms by timing a few of them, once per product and shape, outside of captures. Sums are
/// in f32; in mode fp32 no tensor cores are used. In deterministic mode the first algorithm that cuDNN's heuristics
/// propose and that gives equal bits in reruns is used.
class CudnnConvolutions {
 public:
  /// Null, with the reason in `why`, where cuDNN is not part of this build or does not load. The device must be
  /// current.
  static std::unique_ptr<CudnnConvolutions> open(CudaContext& context, Availability& why);
  virtual ~CudnnConvolutions() = default;

  /// Throw Error{environment_missing} for a shape that cuDNN has no algorithm for. Pointers must be 16-byte aligned.
  virtual void forward(Stream& stream, const ConvForward& a) = 0;
  virtual void backward_data(Stream& stream, const ConvBackwardData& a) = 0;
  virtual void backward_filter(Stream& stream, const ConvBackwardFilter& a) = 0;
};

}  // namespace amdahl

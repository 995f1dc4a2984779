// Convolutions of f32 by oneDNN on the calling thread. Only in a build with oneDNN.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>

#include "device/cpu_stream.h"
#include "ops/conv/conv_ops.h"
#include "ops/conv/cpu_conv_kernels.h"

namespace amdahl {

/// Makes oneDNN's primitives, one per product and shape, and keeps them. Worker threads only: a primitive is generated
/// for the number of math threads of the thread that makes it. Thread-safe.
///
/// Activations stay NHWC, for which oneDNN's kernels are as fast as for blocked ones before reorders count; weights are
/// reordered into the blocked format that oneDNN asks for.
class CpuConvolutions {
 public:
  explicit CpuConvolutions(const CpuConvKernels& kernels) : kernels_(kernels) {}

  /// Scratch memory of the stream: slot 0. Throws Error{out_of_memory} when oneDNN gets no memory, Error{internal} when
  /// it refuses the convolution.
  void forward(CpuStream& stream, const ConvForward& a);
  void backward_data(CpuStream& stream, const ConvBackwardData& a);
  void backward_filter(CpuStream& stream, const ConvBackwardFilter& a);

 private:
  enum class Product { forward, backward_data, backward_filter };
  struct Key {
    Product product;
    int64_t rows, height, width, in_channels, out_channels, kernel, stride, padding;
    auto operator<=>(const Key&) const = default;
  };
  struct Primitive;

  const Primitive& find(Product product, const ConvShape& shape);

  const CpuConvKernels& kernels_;
  std::mutex mutex_;  // guards primitives_, whose elements stay in place
  std::map<Key, std::shared_ptr<Primitive>> primitives_;
};

}  // namespace amdahl

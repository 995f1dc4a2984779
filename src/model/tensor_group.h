// TensorGroup: the ranks among which tensor parallelism divides a layer, as the layer sees them.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"
#include "plan/shards.h"

namespace amdahl {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;
  virtual TensorPlace place() const = 0;
  /// Replaces `data` by its sum over the ranks, the same bits on each.
  virtual void sum(Stream& stream, void* data, int64_t count, DType type) = 0;
  /// Copies `count` floats of each rank to all[rank * count].
  virtual void gather(Stream& stream, const void* part, void* all, int64_t count, DType type) = 0;
  void gather(Stream& stream, const float* part, float* all, int64_t count) {
    gather(stream, part, all, count, DType::f32);
  }
  /// Replaces all[rank * count] and what follows, `count` elements, by their sum over the ranks. The other elements are
  /// undefined.
  virtual void sum_scatter(Stream& stream, void* all, int64_t count, DType type) = 0;
};

}  // namespace amdahl

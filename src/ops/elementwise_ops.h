// ElementwiseOps: copies and counters.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace amdahl {

class ElementwiseOps {
 public:
  virtual ~ElementwiseOps() = default;
  /// out[i, :] = table[indices[i], :] for `rows` rows of `width` floats.
  virtual void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                           int64_t width) = 0;
  /// *counter += 1, in stream order.
  virtual void increment(Stream& stream, uint64_t* counter) = 0;
};

}  // namespace amdahl

// f32 copies of 16-bit arrays for the CPU operations of fp16, which compute in f32 and round what they read and write.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"

namespace amdahl {

/// Not thread-safe, like the Ops that use it. Every call enqueues on `stream`; a copy is valid until the next operation
/// on that stream takes the same slot.
class HalfMemory {
 public:
  explicit HalfMemory(Device& device) : device_(device) {}

  /// Memory for `count` floats.
  float* room(Stream& stream, size_t slot, int64_t count);
  /// The floats of `count` halves; null for null.
  float* widened(Stream& stream, size_t slot, const void* halves, int64_t count);
  /// Floats rounded to half precision.
  float* rounded(Stream& stream, size_t slot, const float* values, int64_t count);
  /// Writes `count` floats as halves.
  static void narrow(Stream& stream, const float* from, void* halves, int64_t count);

 private:
  Device& device_;
  std::map<const Stream*, std::vector<std::unique_ptr<Buffer>>> slots_;
};

}  // namespace amdahl

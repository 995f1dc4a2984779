// CompressionOps: gradients in fewer bytes, and back.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

/// to[n] = from[n], rounded to nearest, ties to even. One of the types is f32, the other f16 or bf16.
struct RoundValues {
  const void* from;
  DType from_type;
  void* to;
  DType to_type;
  int64_t n;
};

/// Compression with error feedback: with x = gradients + feedback, the message holds values y close to x, and feedback
/// becomes x - y, exactly (no rounding). Values that are not finite are sent as they are or as NaN, and leave a
/// feedback of 0. Blocks are those of plan/compressed_blocks.h.
struct CompressValues {
  const float* gradients;  // [n]
  float* feedback;         // [n]
  void* message;           // int8_message_bytes(n) or topk_message_bytes(n, keep)
  int64_t n;
  int64_t kept = 0;  // topk: values of each block
};

/// gradients[n] = the sum of the values of `ranks` messages of `message_bytes` each, one after another, in rank order.
struct SumMessages {
  const void* messages;
  int64_t message_bytes;
  int ranks;
  float* gradients;
  int64_t n;
  int64_t kept = 0;  // topk
};

class CompressionOps {
 public:
  virtual ~CompressionOps() = default;
  virtual void round(Stream& stream, const RoundValues& a) = 0;
  /// Codes of 8 bits: y = code * scale with |code| <= 127; the scale of a block is the least power of two for which no
  /// code overflows.
  virtual void compress_int8(Stream& stream, const CompressValues& a) = 0;
  virtual void sum_int8(Stream& stream, const SumMessages& a) = 0;
  /// The `kept` values of each block with the largest magnitude (of equal ones those at lower places), unchanged.
  virtual void compress_topk(Stream& stream, const CompressValues& a) = 0;
  virtual void sum_topk(Stream& stream, const SumMessages& a) = 0;
};

}  // namespace amdahl

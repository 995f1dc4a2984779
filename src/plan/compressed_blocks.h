// Sizes of compressed gradients. Gradients are compressed in blocks of kCompressedBlock values, each by itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace amdahl {

inline constexpr int64_t kCompressedBlock = 1024;

inline int64_t compressed_blocks(int64_t floats) { return (floats + kCompressedBlock - 1) / kCompressedBlock; }

/// int8: a scale for each block, then a code for each value.
inline int64_t int8_message_bytes(int64_t floats) {
  return compressed_blocks(floats) * static_cast<int64_t>(sizeof(float)) + (floats + 3) / 4 * 4;
}

/// Values in each of the chunks into which ranks divide a sum of int8 messages: the last chunks may have fewer, or
/// none.
inline int64_t int8_chunk(int64_t floats, int ranks) { return (floats + 4 * ranks - 1) / (4 * ranks) * 4; }

/// Values of a block that topk sends.
inline int64_t kept_of_block(int64_t keep_ppm) {
  return std::clamp<int64_t>((kCompressedBlock * keep_ppm + 500'000) / 1'000'000, 1, kCompressedBlock);
}
/// topk: the kept values of each block, then the place of each in its block (kNoPlace: none).
inline constexpr uint16_t kNoPlace = 0xffff;
inline int64_t topk_message_bytes(int64_t floats, int64_t keep_ppm) {
  const int64_t kept = compressed_blocks(floats) * kept_of_block(keep_ppm);
  return (kept * static_cast<int64_t>(sizeof(float) + sizeof(uint16_t)) + 3) / 4 * 4;
}

}  // namespace amdahl

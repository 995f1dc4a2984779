// Compression of gradients on CPU virtual devices.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/small_floats.h"
#include "device/cpu_device.h"
#include "ops/cpu_ops.h"
#include "ops/int8_scale.h"
#include "plan/compressed_blocks.h"

namespace amdahl {
namespace {

template <class To, class From, class Convert>
void convert_values(const RoundValues& a, const Convert& convert) {
  const auto* from = static_cast<const From*>(a.from);
  auto* to = static_cast<To*>(a.to);
  for (int64_t i = 0; i < a.n; ++i) to[i] = convert(from[i]);
}

void round_values(const RoundValues& a) {
  const auto widened = [](auto value) { return to_float(value); };
  if (a.to_type == DType::bf16) return convert_values<Bfloat, float>(a, to_bfloat);
  if (a.to_type == DType::f16) return convert_values<Half, float>(a, to_half);
  if (a.from_type == DType::bf16) return convert_values<float, Bfloat>(a, widened);
  convert_values<float, Half>(a, widened);
}

int64_t block_values(int64_t n, int64_t block) { return std::min(kCompressedBlock, n - block * kCompressedBlock); }

/// Nearest whole number, ties to even, of |value| < 2^22: adding 1.5 * 2^23 makes the FPU round.
float nearest(float value) {
  constexpr float kRounder = 12582912.0f;
  return (value + kRounder) - kRounder;
}

void compress_block_int8(const float* gradients, float* feedback, float* scale, int8_t* codes, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    feedback[i] += gradients[i];
    most = std::max(most, std::bit_cast<uint32_t>(feedback[i]) & kMagnitudeBits);
  }
  if (most >= kInfinityBits) {
    *scale = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(codes, n, int8_t{1});
    std::fill_n(feedback, n, 0.0f);
    return;
  }
  const uint32_t exponent = int8_exponent(most);
  const float step = std::bit_cast<float>(exponent << 23), inverse = std::bit_cast<float>((254 - exponent) << 23);
  *scale = step;
  for (int64_t i = 0; i < n; ++i) {
    const float code = nearest(feedback[i] * inverse);
    codes[i] = static_cast<int8_t>(code);
    feedback[i] -= code * step;
  }
}

void compress_values_int8(const CompressValues& a) {
  auto* const scales = static_cast<float*>(a.message);
  auto* const codes = reinterpret_cast<int8_t*>(scales + compressed_blocks(a.n));
  for (int64_t block = 0; block < compressed_blocks(a.n); ++block) {
    const int64_t begin = block * kCompressedBlock;
    compress_block_int8(a.gradients + begin, a.feedback + begin, scales + block, codes + begin,
                        block_values(a.n, block));
  }
}

void sum_messages_int8(const SumMessages& a) {
  std::fill_n(a.gradients, a.n, 0.0f);
  for (int rank = 0; rank < a.ranks; ++rank) {
    const auto* const scales =
        reinterpret_cast<const float*>(static_cast<const char*>(a.messages) + rank * a.message_bytes);
    const auto* const codes = reinterpret_cast<const int8_t*>(scales + compressed_blocks(a.n));
    for (int64_t block = 0; block < compressed_blocks(a.n); ++block) {
      const int64_t begin = block * kCompressedBlock, end = begin + block_values(a.n, block);
      const float scale = scales[block];
      for (int64_t i = begin; i < end; ++i) a.gradients[i] += static_cast<float>(codes[i]) * scale;
    }
  }
}

void compress_block_topk(const float* gradients, float* feedback, float* values, uint16_t* places, int64_t n,
                         int64_t kept) {
  std::array<uint64_t, kCompressedBlock> keys;  // magnitude, then the lower place first
  for (int64_t i = 0; i < n; ++i) {
    feedback[i] += gradients[i];
    const uint64_t magnitude = std::bit_cast<uint32_t>(feedback[i]) & kMagnitudeBits;
    keys[static_cast<size_t>(i)] = magnitude << 16 | static_cast<uint64_t>(kNoPlace - i);
  }
  const int64_t sent = std::min(kept, n);
  std::nth_element(keys.begin(), keys.begin() + sent - 1, keys.begin() + n, std::greater<>());
  for (int64_t k = 0; k < kept; ++k) {
    if (k >= sent) {
      values[k] = 0.0f, places[k] = kNoPlace;
      continue;
    }
    const auto place = static_cast<uint16_t>(kNoPlace - (keys[static_cast<size_t>(k)] & 0xffffu));
    values[k] = feedback[place], places[k] = place;
    feedback[place] = 0.0f;
  }
}

void compress_values_topk(const CompressValues& a) {
  const int64_t blocks = compressed_blocks(a.n);
  auto* const values = static_cast<float*>(a.message);
  auto* const places = reinterpret_cast<uint16_t*>(values + blocks * a.kept);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kCompressedBlock;
    compress_block_topk(a.gradients + begin, a.feedback + begin, values + block * a.kept, places + block * a.kept,
                        block_values(a.n, block), a.kept);
  }
}

void sum_messages_topk(const SumMessages& a) {
  std::fill_n(a.gradients, a.n, 0.0f);
  const int64_t entries = compressed_blocks(a.n) * a.kept;
  for (int rank = 0; rank < a.ranks; ++rank) {
    const auto* const values =
        reinterpret_cast<const float*>(static_cast<const char*>(a.messages) + rank * a.message_bytes);
    const auto* const places = reinterpret_cast<const uint16_t*>(values + entries);
    for (int64_t i = 0; i < entries; ++i)
      if (places[i] != kNoPlace) a.gradients[i / a.kept * kCompressedBlock + places[i]] += values[i];
  }
}

class CpuCompressionOps final : public CompressionOps {
 public:
  void round(Stream& stream, const RoundValues& a) override {
    as_cpu(stream).enqueue([a] { round_values(a); });
  }
  void compress_int8(Stream& stream, const CompressValues& a) override {
    as_cpu(stream).enqueue([a] { compress_values_int8(a); });
  }
  void sum_int8(Stream& stream, const SumMessages& a) override {
    as_cpu(stream).enqueue([a] { sum_messages_int8(a); });
  }
  void compress_topk(Stream& stream, const CompressValues& a) override {
    as_cpu(stream).enqueue([a] { compress_values_topk(a); });
  }
  void sum_topk(Stream& stream, const SumMessages& a) override {
    as_cpu(stream).enqueue([a] { sum_messages_topk(a); });
  }
};

}  // namespace

std::unique_ptr<CompressionOps> make_cpu_compression_ops() { return std::make_unique<CpuCompressionOps>(); }

}  // namespace amdahl

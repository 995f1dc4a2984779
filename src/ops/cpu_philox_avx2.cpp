// Eight Philox blocks in parallel, one per 32-bit lane.
#include <immintrin.h>

#include "ops/cpu_philox.h"

namespace amdahl {

namespace AMDAHL_CPU_PHILOX {
namespace {

// High and low halves of the eight 64-bit products of x's lanes with a 32-bit factor.
inline void multiply(__m256i x, __m256i factor, __m256i& high, __m256i& low) {
  const __m256i even = _mm256_mul_epu32(x, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

inline __m256i broadcast(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

// Lane l of c[0..3] holds the four words of block l; stores them as 32 words in block order.
inline void store_transposed(const __m256i c[4], uint32_t bits[kDrawColumns]) {
  const __m256i a = _mm256_unpacklo_epi32(c[0], c[1]), b = _mm256_unpackhi_epi32(c[0], c[1]);
  const __m256i d = _mm256_unpacklo_epi32(c[2], c[3]), e = _mm256_unpackhi_epi32(c[2], c[3]);
  const __m256i r0 = _mm256_unpacklo_epi64(a, d), r1 = _mm256_unpackhi_epi64(a, d);  // blocks 0|4, 1|5
  const __m256i r2 = _mm256_unpacklo_epi64(b, e), r3 = _mm256_unpackhi_epi64(b, e);  // blocks 2|6, 3|7
  auto* out = reinterpret_cast<__m256i*>(bits);
  _mm256_storeu_si256(out + 0, _mm256_permute2x128_si256(r0, r1, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(r2, r3, 0x20));
  _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(r0, r1, 0x31));
  _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(r2, r3, 0x31));
}

}  // namespace

void draw_columns(const Dropout& dropout, uint32_t first_block, uint32_t global_row, uint32_t step,
                  uint32_t bits[kDrawColumns]) {
  __m256i c[4] = {_mm256_add_epi32(broadcast(first_block), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
                  broadcast(global_row), broadcast(step), broadcast(dropout.layer)};
  const __m256i mul0 = broadcast(0xD2511F53u), mul1 = broadcast(0xCD9E8D57u);
  uint32_t k0 = static_cast<uint32_t>(dropout.seed), k1 = static_cast<uint32_t>(dropout.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    __m256i high0, low0, high1, low1;
    multiply(c[0], mul0, high0, low0);
    multiply(c[2], mul1, high1, low1);
    c[0] = _mm256_xor_si256(_mm256_xor_si256(high1, c[1]), broadcast(k0));
    c[2] = _mm256_xor_si256(_mm256_xor_si256(high0, c[3]), broadcast(k1));
    c[1] = low1;
    c[3] = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  store_transposed(c, bits);
}

}  // namespace AMDAHL_CPU_PHILOX

}  // namespace amdahl

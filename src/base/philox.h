// Philox4x32-10, a counter-based random number generator (Salmon et al., SC 2011): equal counters give equal numbers on
// CPU and GPU.
//
// The counter is what a number is for (seed, step, layer, row, column), so any split of a batch draws the same numbers.
// With a sequential generator row r would depend on the rows before it, and processes would exchange data to agree.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define AMDAHL_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define AMDAHL_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace amdahl {

struct Philox4 {
  uint32_t v[4];
};

/// 128 random bits for a 64-bit key and a 128-bit counter.
AMDAHL_HOST_DEVICE Philox4 philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMul0) * c0;
    const uint64_t p1 = static_cast<uint64_t>(kMul1) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return Philox4{{c0, c1, c2, c3}};
}

/// Uniform float in (0, 1] from 32 random bits.
AMDAHL_HOST_DEVICE float philox_uniform(uint32_t bits) { return (static_cast<float>(bits >> 8) + 1.0f) * 0x1p-24f; }

/// Threshold for dropout with probability `p`: an element is kept when its bits are below it, P(bits < threshold) = 1 -
/// p.
AMDAHL_HOST_DEVICE uint32_t dropout_keep_threshold(double p) {
  const double keep = (1.0 - p) * 4294967296.0;
  return keep >= 4294967295.0 ? 4294967295u : static_cast<uint32_t>(keep);
}

/// Random bits for the dropout of 4 adjacent columns: counter (column/4, global row, step, layer), key: the job's seed.
AMDAHL_HOST_DEVICE Philox4 dropout_draw(uint64_t seed, uint32_t column_block, uint32_t global_row, uint32_t step,
                                        uint32_t layer) {
  return philox(seed, column_block, global_row, step, layer);
}

}  // namespace amdahl

// Device helpers of the persistent recurrent kernels: products with weights that stay in registers, and messages
// between the blocks of a cluster.
//
// A product is weights[16 rows of A, k] times rows[k, 8 rows of the batch]. Its k are distributed to the lanes so that
// a lane's share of a batch row is 16 contiguous bytes of shared memory (k_of_step), which is allowed because both
// operands use the same order. Lanes are (g, t) = (lane / 4, lane % 4), as in cuda_mma.cuh.
#pragma once

#include <cstdint>

#include "ops/cuda_messages.cuh"
#include "ops/cuda_mma.cuh"

namespace amdahl {

inline constexpr int kBlockUnits = 32;  // units per block: four groups of eight, one for each of four warps
inline constexpr int kTileRows = 8;     // batch rows of one tile
inline constexpr int kPartWarps = 4;

/// How f32, tf32 or bf16 values lie in shared memory and fragments. fp32 multiplies every pair of values as three pairs
/// of tf32 parts.
template <MathMode kMath>
struct Operand {
  static constexpr bool kHalf = kMath == MathMode::bf16;
  static constexpr int kBytes = kHalf ? 2 : 4;
  static constexpr int kPer16Bytes = 16 / kBytes;
  static constexpr int kFragmentRegisters = kHalf ? 2 : 4;
  static constexpr MathMode kCores = kHalf ? MathMode::bf16 : MathMode::tf32;
  using Piece = Fragment<kCores>;

  /// Bytes from one batch row of `num_k` values to the next. Eight neighbouring lanes, which load 64 bytes of each of
  /// two rows at a time, then use all banks.
  __host__ __device__ static constexpr int row_bytes(int num_k) { return num_k * kBytes + 64; }
};

/// The first of the four k that lane t supplies to step s of 16 k.
template <MathMode kMath>
__device__ __forceinline__ int k_of_step(int s, int t) {
  return Operand<kMath>::kHalf ? 32 * (s / 2) + 8 * t + 4 * (s % 2) : 16 * s + 4 * t;
}

/// A value as f32 or tf32 holds it.
template <MathMode kMath>
__device__ __forceinline__ uint32_t value_bits(float value) {
  return kMath == MathMode::tf32 ? round_to_tf32(value) : __float_as_uint(value);
}

/// Four neighbouring k of one row of weights.
template <MathMode kMath>
__device__ __forceinline__ typename Operand<kMath>::Piece weight_piece(const float (&k)[4]) {
  typename Operand<kMath>::Piece piece;
  if constexpr (kMath == MathMode::bf16) {
    piece.r[0] = pack_bf16(k[0], k[1]);
    piece.r[1] = pack_bf16(k[2], k[3]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) piece.r[i] = value_bits<kMath>(k[i]);
  }
  return piece;
}

/// Element `at` of an array of bf16 if the kernel computes in bf16, else of f32.
template <MathMode kMath>
__device__ __forceinline__ void store_element(void* array, int64_t at, float value) {
  if constexpr (kMath == MathMode::bf16)
    static_cast<uint16_t*>(array)[at] = static_cast<uint16_t>(pack_bf16(value, 0.0f));
  else
    static_cast<float*>(array)[at] = value;
}
template <MathMode kMath>
__device__ __forceinline__ float load_element(const void* array, int64_t at) {
  if constexpr (kMath == MathMode::bf16)
    return __uint_as_float(static_cast<uint32_t>(static_cast<const uint16_t*>(array)[at]) << 16);
  else
    return static_cast<const float*>(array)[at];
}

/// What a value loses when the tensor cores cut it to tf32.
__device__ __forceinline__ uint32_t tf32_rest(uint32_t bits) {
  return __float_as_uint(__uint_as_float(bits) - __uint_as_float(bits & 0xffffe000u));
}

/// c[16, 8] += weights[16, 16 k] rows[16 k, 8]; `low` and `high` are rows g and g + 8 of the weights.
template <MathMode kMath>
__device__ __forceinline__ void multiply_step(float (&c)[4], const typename Operand<kMath>::Piece& low,
                                              const typename Operand<kMath>::Piece& high,
                                              const typename Operand<kMath>::Piece& rows) {
  constexpr MathMode kCores = Operand<kMath>::kCores;
  if constexpr (kMath == MathMode::fp32) {
    typename Operand<kMath>::Piece low_rest, high_rest, rows_rest;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      low_rest.r[i] = tf32_rest(low.r[i]);
      high_rest.r[i] = tf32_rest(high.r[i]);
      rows_rest.r[i] = tf32_rest(rows.r[i]);
    }
    multiply<kCores>(c, low_rest, high_rest, rows);
    multiply<kCores>(c, low, high, rows_rest);
  }
  multiply<kCores>(c, low, high, rows);
}

/// The weights of kRowTiles times 16 rows and kSteps steps of k, in registers.
template <MathMode kMath, int kRowTiles, int kSteps>
struct HeldWeights {
  typename Operand<kMath>::Piece low[kRowTiles][kSteps], high[kRowTiles][kSteps];
};

/// Sums of kRowTiles times 16 rows of weights with kTiles tiles of batch rows.
template <int kRowTiles, int kTiles>
struct HeldSums {
  float c[kRowTiles][kTiles][4];
};

/// sums + weights rows. `rows`: this lane's first 16 bytes of batch row g of the first tile; tiles are kTileBytes
/// apart. A few independent partial sums per result hide the latency of the tensor cores where there are few results.
template <int kTiles, int kTileBytes, MathMode kMath, int kRowTiles, int kSteps>
__device__ __forceinline__ HeldSums<kRowTiles, kTiles> multiply_held(
    const HeldWeights<kMath, kRowTiles, kSteps>& weights, const std::byte* rows,
    const HeldSums<kRowTiles, kTiles>& sums) {
  using Values = Operand<kMath>;
  constexpr int kLoads = kSteps * 4 / Values::kPer16Bytes, kStepsPerLoad = kSteps / kLoads;
  constexpr int kWanted = 8 / (kRowTiles * kTiles), kChains = kWanted < 1 ? 1 : kWanted < kSteps ? kWanted : kSteps;
  HeldSums<kRowTiles, kTiles> chains[kChains] = {sums};
#pragma unroll
  for (int load = 0; load < kLoads; ++load)
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 packed = *reinterpret_cast<const uint4*>(rows + tile * kTileBytes + load * 64);
      const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
      for (int i = 0; i < kStepsPerLoad; ++i) {
        typename Values::Piece piece;
#pragma unroll
        for (int r = 0; r < Values::kFragmentRegisters; ++r) piece.r[r] = words[i * Values::kFragmentRegisters + r];
        const int step = load * kStepsPerLoad + i;
#pragma unroll
        for (int row = 0; row < kRowTiles; ++row)
          multiply_step<kMath>(chains[step % kChains].c[row][tile], weights.low[row][step], weights.high[row][step],
                               piece);
      }
    }
#pragma unroll
  for (int chain = 1; chain < kChains; ++chain)
#pragma unroll
    for (int i = 0; i < kRowTiles * kTiles * 4; ++i) {
      const int row = i / 4 / kTiles, tile = i / 4 % kTiles;
      chains[0].c[row][tile][i % 4] += chains[chain].c[row][tile][i % 4];
    }
  return chains[0];
}

}  // namespace amdahl

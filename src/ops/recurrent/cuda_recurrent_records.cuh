// Device helpers: what the persistent recurrent kernels keep for backward, in the order of their lanes.
//
// A record holds what one lane computes in one step for a tile of batch rows: of its unit, lane / 4 of eight, and two
// rows of the batch, 2 (lane % 4) and the next. Records are ordered [tile, step, eight units, lane], so that a warp
// stores and loads contiguous memory. Those of the gates hold i, f, g, o or r, z, n and the recurrent part of n of each
// row; as f16 in bf16, which has fewer digits: activations are at most 1.
#pragma once

#include <cuda_fp16.h>

#include "ops/recurrent/cuda_recurrent.h"
#include "ops/recurrent/cuda_recurrent_cell.cuh"

namespace amdahl {

template <MathMode kMath>
struct GateRecord {
  static constexpr bool kHalf = kMath == MathMode::bf16;
  uint4 v[kHalf ? 1 : 2];
};

__device__ __forceinline__ int64_t record_index(const PersistentSizes& sizes, int steps, int tile, int step, int group,
                                                int lane) {
  return ((static_cast<int64_t>(tile) * steps + step) * sizes.groups + group) * 32 + lane;
}

/// Of values up to the largest of f16.
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ float2 unpack_f16(uint32_t bits) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}

/// The record of two rows of the batch.
template <MathMode kMath, RecurrentCell kCell>
__device__ __forceinline__ GateRecord<kMath> gate_record(const CellOutput& a, const CellOutput& b) {
  constexpr bool kLstm = kCell == RecurrentCell::lstm;
  GateRecord<kMath> record;
  if constexpr (GateRecord<kMath>::kHalf) {
    constexpr float kMost = 65504.0f;  // a product of GRU has no bound
    const float last_a = kLstm ? a.gates[3] : fminf(fmaxf(a.kept, -kMost), kMost);
    const float last_b = kLstm ? b.gates[3] : fminf(fmaxf(b.kept, -kMost), kMost);
    record.v[0] = make_uint4(pack_f16(a.gates[0], a.gates[1]), pack_f16(a.gates[2], last_a),
                             pack_f16(b.gates[0], b.gates[1]), pack_f16(b.gates[2], last_b));
  } else {
    const auto bits = [](const CellOutput& o) {
      return make_uint4(__float_as_uint(o.gates[0]), __float_as_uint(o.gates[1]), __float_as_uint(o.gates[2]),
                        __float_as_uint(kLstm ? o.gates[3] : o.kept));
    };
    record.v[0] = bits(a), record.v[1] = bits(b);
  }
  return record;
}

/// The four values of row `e`.
template <MathMode kMath>
__device__ __forceinline__ void read_gates(const GateRecord<kMath>& record, int e, float (&values)[4]) {
  if constexpr (GateRecord<kMath>::kHalf) {
    const float2 low = unpack_f16(e == 0 ? record.v[0].x : record.v[0].z);
    const float2 high = unpack_f16(e == 0 ? record.v[0].y : record.v[0].w);
    values[0] = low.x, values[1] = low.y, values[2] = high.x, values[3] = high.y;
  } else {
    const uint4 bits = record.v[e];
    values[0] = __uint_as_float(bits.x), values[1] = __uint_as_float(bits.y);
    values[2] = __uint_as_float(bits.z), values[3] = __uint_as_float(bits.w);
  }
}

/// Starts to bring 128 bytes into the second-level cache.
__device__ __forceinline__ void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace amdahl

// Layout of the persistent forward kernel of recurrent layers, and loads of its weights.
#pragma once

#include "ops/recurrent/cuda_recurrent.h"
#include "ops/recurrent/cuda_recurrent_tile.cuh"

namespace amdahl {

/// kInputSteps: of 16 inputs each that the kernel multiplies itself, or 0. Shared memory: h of two steps for every
/// chunk, in rows of the batch; sums of the second part; weights of the inputs; states; arrivals.
template <class V, int kInputSteps>
struct ForwardLayout {
  using Values = Operand<V::kMath>;
  static constexpr int kParts = Values::kHalf || V::kHidden <= 128 ? 1 : 2;  // a thread holds 128 registers of weights
  static constexpr int kWarps = kPartWarps * kParts * V::kSets, kThreads = 32 * kWarps;
  static constexpr int kSteps = V::kHidden / 16 / kParts;  // of k, per part
  static constexpr int kRowBytes = Values::row_bytes(V::kHidden), kTileBytes = kTileRows * kRowBytes;
  static constexpr int kChunkBytes = V::kTiles * kTileBytes;
  static constexpr int kPartBytes = kSteps * 16 * Values::kBytes;  // of a row
  static constexpr int kSumBytes = kParts > 1 ? kPartWarps * 2 * V::kTiles * 32 * 16 : 0;
  static constexpr int kOwnInputSteps = kInputSteps / kParts;
  static constexpr int kStepsPerLoad = Values::kPer16Bytes / 4, kInputLoads = kOwnInputSteps / kStepsPerLoad;
  static constexpr int kPairWords = Values::kFragmentRegisters / 2;  // of 16 bytes: 16 rows of weights, 16 k
  static constexpr int kInputBytes = kWarps * kOwnInputSteps * 2 * kPairWords * 32 * 16;
  static constexpr int kStateBytes = V::kTiles * kPartWarps * 32 * 8;  // of a chunk
  static constexpr uint32_t kMessageBytes = V::kTiles * kTileRows * V::kHidden * Values::kBytes;
  static constexpr int kSenders = Values::kPer16Bytes / 2;  // lanes that hold the same 16 bytes of h
  static constexpr int kReceivers = V::kBlocks / kSenders;  // of each of them

  __host__ __device__ static constexpr int sums(int chunks) { return 2 * chunks * kChunkBytes; }
  __host__ __device__ static constexpr int inputs(int chunks) { return sums(chunks) + kSumBytes; }
  __host__ __device__ static constexpr int states(int chunks) { return inputs(chunks) + kInputBytes; }
  __host__ __device__ static constexpr int arrivals(int chunks) { return states(chunks) + chunks * kStateBytes; }
  __host__ __device__ static constexpr int bytes(int chunks) { return arrivals(chunks) + 16 * chunks; }
};

/// Four values of a row from k on; zeros past its end, and for a null row.
__device__ __forceinline__ void load_four(float (&values)[4], const float* row, int k, int num_k, bool vector) {
  if (vector && row && k + 4 <= num_k) {
    const float4 packed = *reinterpret_cast<const float4*>(row + k);
    values[0] = packed.x, values[1] = packed.y, values[2] = packed.z, values[3] = packed.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = row && k + i < num_k ? row[k + i] : 0.0f;
}

/// Whether load_four may load 16 bytes at a time.
__device__ __forceinline__ bool loads_vectors(const float* rows, int num_k) {
  return num_k % 4 == 0 && reinterpret_cast<uintptr_t>(rows) % 16 == 0;
}

}  // namespace amdahl

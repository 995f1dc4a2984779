// Where the parts of a region for collectives between GPUs are, and the arithmetic of their sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "comm/communicator.h"
#include "symmetric/symmetric_collectives.h"
#include "symmetric/team_view.h"

namespace amdahl::symmetric_cuda {

/// In this rank's memory, after TeamFlags: counters in device memory, so that replays of a graph go on counting.
struct FlaggedState {
  uint64_t round;            // number of completed rounds of flagged messages, or of those in lines
  unsigned finished_blocks;  // of the running kernel
};

inline constexpr int kCollectiveBlocks = 16;  // at most, and equal on all ranks
inline constexpr int kCollectiveThreads = 512;

/// Offsets from the start of a region. Data alternates between two sets: a rank writes the set of round e + 2 only
/// after it has heard of round e + 1 from every rank, which has then finished round e.
struct CudaCollectiveLayout {
  static constexpr size_t kFlaggedBytes = 32 << 10;  // payload of a flagged message, which takes twice as much
  static constexpr size_t kPushBytes = 256 << 10;    // data for one rank
  static constexpr size_t kLineBytes = 128;          // of a line, kLineData of them data, then its flag
  static constexpr size_t kLineData = 120;
  static constexpr size_t kLines = 2048;  // of a message
  static constexpr size_t kState = 2048, kLineState = kState + 128, kArrived = kState + 256;
  static constexpr size_t kFlagged =
      kArrived + 2 * kCollectiveBlocks * kMaxTeamRanks * sizeof(Signal);  // phase, block, rank
  static_assert(sizeof(TeamFlags) <= kState && kFlagged % 256 == 0);

  int world;
  __host__ __device__ size_t flagged(uint64_t round, int from) const {
    return kFlagged + ((round & 1) * static_cast<size_t>(world) + static_cast<size_t>(from)) * 2 * kFlaggedBytes;
  }
  __host__ __device__ size_t pushed(uint64_t epoch, int from) const {
    return kFlagged + 4 * static_cast<size_t>(world) * kFlaggedBytes +
           ((epoch & 1) * static_cast<size_t>(world) + static_cast<size_t>(from)) * kPushBytes;
  }
  /// Sums of all shares, world x kPushBytes.
  __host__ __device__ size_t sums(uint64_t epoch) const {
    return pushed(0, 0) + (2 + (epoch & 1)) * static_cast<size_t>(world) * kPushBytes;
  }
  __host__ __device__ size_t line(uint64_t round, int from) const {
    return sums(0) + 2 * static_cast<size_t>(world) * kPushBytes +
           ((round & 1) * static_cast<size_t>(world) + static_cast<size_t>(from)) * kLines * kLineBytes;
  }
  size_t bytes() const { return line(0, 0) + 2 * static_cast<size_t>(world) * kLines * kLineBytes; }
};

/// The type in which a type is added up, and conversions as reduce_in_order makes them.
template <class T>
struct Adder {
  using type = T;
  __device__ static T load(T value) { return value; }
  __device__ static T store(T value) { return value; }
};
template <>
struct Adder<__half> {
  using type = float;
  __device__ static float load(__half value) { return __half2float(value); }
  __device__ static __half store(float value) { return __float2half_rn(value); }
};
template <>
struct Adder<__nv_bfloat16> {
  using type = float;
  __device__ static float load(__nv_bfloat16 value) { return __bfloat162float(value); }
  __device__ static __nv_bfloat16 store(float value) { return __float2bfloat16_rn(value); }
};

template <class A>
inline constexpr bool kIsFloating = static_cast<A>(0.5) != A(0);

template <class A>
__device__ __forceinline__ A combine(ReduceOp op, A a, A b) {
  switch (op) {
    case ReduceOp::max:
      if constexpr (kIsFloating<A>) return (a > b || a != a || (a == b && !signbit(a))) ? a : b;
      return a > b ? a : b;
    case ReduceOp::min:
      if constexpr (kIsFloating<A>) return (a < b || a != a || (a == b && signbit(a))) ? a : b;
      return a < b ? a : b;
    case ReduceOp::prod:
      if constexpr (kIsFloating<A>) return a * b;
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    default:
      if constexpr (kIsFloating<A>) return a + b;
      return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}
template <class A>
__device__ __forceinline__ A finished(ReduceOp op, A sum, int ranks) {
  return op == ReduceOp::avg ? static_cast<A>(sum / static_cast<A>(ranks)) : sum;
}

}  // namespace amdahl::symmetric_cuda

// Where the parts of a region for collectives between GPUs are, and the arithmetic of their sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "comm/communicator.h"
#include "symmetric/cuda_flagged.cuh"
#include "symmetric/symmetric_collectives.h"

namespace amdahl::symmetric_cuda {

inline constexpr int kCollectiveBlocks = 32;  // at most (most_collective_blocks), and equal on all ranks
inline constexpr int kCollectiveThreads = 512;
inline constexpr int kFlaggedThreads = 256;  // of a block whose data carry their flags
inline constexpr int kMessageBlocks = 16;    // of each direction, at most
inline constexpr int kMessageThreads = 512;
static_assert(kCollectiveBlocks <= kRoundUnits);

/// Offsets from the start of a region. Flagged messages and lines alternate between two sets: a rank writes the set of
/// round e + 2 only after it has heard of round e + 1 from every rank, which has then finished round e. The chunks of
/// BlockRounds and of messages go through kChunkSlots slots.
struct CudaCollectiveLayout {
  static constexpr size_t kFlaggedBytes = 32 << 10;  // payload of a flagged message, which takes twice as much
  static constexpr size_t kLineBytes = 128;          // of a line, kLineData of them data, then its flag
  static constexpr size_t kLineData = 120;
  static constexpr size_t kLines = 8192;  // of a message, or of a share
  static constexpr size_t kChunkSlots = 4;
  static constexpr size_t kMessageChunk = 64 << 10;
  static constexpr size_t kState = 2048, kLineState = kState + 128;
  /// Counters of 8 bytes, which all begin with the first epoch: of this rank's rounds by block, of the rounds of
  /// which others told it by block and rank, and by rank and block of the chunks of messages: those that this rank has
  /// sent and received, and of which the other rank says that they arrived here and that it has read them.
  static constexpr size_t kRounds = kState + 256;
  static constexpr size_t kArrived = kRounds + kCollectiveBlocks * sizeof(uint64_t);
  static constexpr size_t kMessageCounters = kMaxTeamRanks * kMessageBlocks * sizeof(uint64_t);
  static constexpr size_t kSent = kArrived + kCollectiveBlocks * kMaxTeamRanks * sizeof(Signal);
  static constexpr size_t kReceived = kSent + kMessageCounters, kDelivered = kReceived + kMessageCounters;
  static constexpr size_t kRead = kDelivered + kMessageCounters;
  /// Addresses of buffers, initially zero: by block and rank that of what it sends and that of what it receives, and by
  /// rank and block that of a message's destination.
  static constexpr size_t kAddresses = kRead + kMessageCounters;
  static constexpr size_t kMessageAddresses = kAddresses + 2 * kCollectiveBlocks * kMaxTeamRanks * sizeof(uint64_t);
  static constexpr size_t kFlagged = kMessageAddresses + kMessageCounters;
  static_assert(sizeof(TeamFlags) <= kState && kFlagged % 256 == 0);

  int world;
  size_t chunk_bytes;  // of a block's chunk for one rank

  explicit CudaCollectiveLayout(int ranks) : world(ranks), chunk_bytes(64 << 10) {
    for (int most = 2; most < ranks; most *= 2) chunk_bytes /= 2;
  }

  __host__ __device__ size_t flagged(uint64_t round, int from) const {
    return kFlagged + ((round & 1) * static_cast<size_t>(world) + static_cast<size_t>(from)) * 2 * kFlaggedBytes;
  }
  /// `step`: 0 or 1, of an all-reduce in two steps.
  __host__ __device__ size_t line(uint64_t round, int step, int from) const {
    const size_t set = (round & 1) * 2 + static_cast<size_t>(step);
    return kFlagged + 4 * static_cast<size_t>(world) * kFlaggedBytes +
           (set * static_cast<size_t>(world) + static_cast<size_t>(from)) * kLines * kLineBytes;
  }
  /// In the memory of rank `on`: the chunk that a block of rank `from`, another one, pushes there in a round,
  __host__ __device__ size_t pushed(uint64_t round, int on, int from, int block) const {
    return line(0, 0, 0) + 4 * static_cast<size_t>(world) * kLines * kLineBytes +
           ((round % kChunkSlots * others() + place(on, from)) * kCollectiveBlocks + static_cast<size_t>(block)) *
               chunk_bytes;
  }
  /// and the chunk of results that it pushes,
  __host__ __device__ size_t result(uint64_t round, int on, int from, int block) const {
    return pushed(round, on, from, block) + kChunkSlots * others() * kCollectiveBlocks * chunk_bytes;
  }
  /// and a chunk of a message from there.
  __host__ __device__ size_t message(uint64_t chunk, int on, int from, int block) const {
    return pushed(0, 1, 0, 0) + 2 * kChunkSlots * others() * kCollectiveBlocks * chunk_bytes +
           ((chunk % kChunkSlots * others() + place(on, from)) * kMessageBlocks + static_cast<size_t>(block)) *
               kMessageChunk;
  }
  size_t bytes() const { return message(0, 1, 0, 0) + kChunkSlots * others() * kMessageBlocks * kMessageChunk; }

 private:
  __host__ __device__ size_t others() const { return static_cast<size_t>(world) - 1; }
  __host__ __device__ static size_t place(int on, int from) { return static_cast<size_t>(from < on ? from : from - 1); }
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

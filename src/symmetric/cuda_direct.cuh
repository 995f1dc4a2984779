// What the kernels of collectives do with buffers of other ranks that they can access: no slots, and each element
// crosses a link once per step. Between the ranks of one process. Included by one source.
//
// The ranks meet at the start, when they exchange addresses, and at the end (BlockRounds). Blocks take tiles by turns,
// so that at any time all of them are in the same pages.
#pragma once

#include "symmetric/cuda_block_rounds.cuh"

namespace amdahl {
namespace {

constexpr int kDirectUnroll = 8;  // loads of 16 bytes that a thread has under way

__device__ __forceinline__ bool is_multiple_of_pack(const void* address) { return are_aligned(address, address, 16); }

/// Calls use(begin, bytes) for each tile of this block.
template <class Use>
__device__ __forceinline__ void for_tiles(size_t bytes, const Use& use) {
  const size_t tile = size_t{blockDim.x} * kDirectUnroll * sizeof(uint4);
  for (size_t begin = blockIdx.x * tile; begin < bytes; begin += gridDim.x * tile) use(begin, min(tile, bytes - begin));
}

/// Copies this rank's buffer to place(rank) of every rank in `to` (bits), which may be null for none.
template <class Place>
__device__ __forceinline__ void copy_to_ranks(const TeamView& team, unsigned to, const char* from, size_t bytes,
                                              const Place& place) {
  bool aligned = is_multiple_of_pack(from);
  for (int rank = 0; rank < team.size; ++rank)
    if (to >> rank & 1) aligned = aligned && is_multiple_of_pack(place(rank));
  for_tiles(bytes, [&](size_t begin, size_t part) {
    if (!aligned) {
      for (int step = 0; step < team.size; ++step) {
        const int rank = (team.rank + step) % team.size;
        if (to >> rank & 1) copy_bytes(place(rank) + begin, from + begin, part);
      }
      return;
    }
    const size_t packs = part / sizeof(uint4), threads = blockDim.x;
    const auto* source = reinterpret_cast<const uint4*>(from + begin);
    uint4 got[kDirectUnroll];
#pragma unroll
    for (int k = 0; k < kDirectUnroll; ++k)
      if (threadIdx.x + k * threads < packs) got[k] = __ldcg(source + threadIdx.x + k * threads);
    for (int step = 0; step < team.size; ++step) {
      const int rank = (team.rank + step) % team.size;
      if (!(to >> rank & 1)) continue;
      auto* target = reinterpret_cast<uint4*>(place(rank) + begin);
#pragma unroll
      for (int k = 0; k < kDirectUnroll; ++k)
        if (threadIdx.x + k * threads < packs) target[threadIdx.x + k * threads] = got[k];
      for (size_t i = packs * sizeof(uint4) + threadIdx.x; i < part; i += threads)
        place(rank)[begin + i] = __ldcg(from + begin + i);
    }
  });
}

/// Moves each value `shift` places on, those at the end to the front. 0 <= shift < kCount. No index is computed, so
/// that the values stay in registers: ranks that load from each other begin with different ones, and add up in rank
/// order.
template <int kCount, class Value>
__device__ __forceinline__ void rotate(Value (&values)[kCount], int shift) {
#pragma unroll
  for (int by = 1; by < kCount; by *= 2) {
    if ((shift & by) == 0) continue;
    Value moved[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) moved[(k + by) % kCount] = values[k];
#pragma unroll
    for (int k = 0; k < kCount; ++k) values[k] = moved[k];
  }
}

/// Adds up `count` elements over the ranks, in their order, at `skip` bytes from the start of what each sends, which is
/// a multiple of 16 bytes in memory. Calls use(p, pack) with each pack of sums. Loads of kAtOnce ranks are under way at
/// once.
template <class T, bool adds, int kUnroll, int kAtOnce, class Use>
__device__ __forceinline__ void add_buffers(const TeamView& team, const Addresses& all, size_t skip, size_t count,
                                            ReduceOp op, const Use& use) {
  using A = Adder<T>;
  constexpr int kPer = Pack<T>::kCount;
  const size_t packs = (count + kPer - 1) / kPer, threads = blockDim.x, stride = gridDim.x * threads * kUnroll;
  for (size_t first = blockIdx.x * threads * kUnroll + threadIdx.x; first < packs; first += stride) {
    typename A::type sums[kUnroll][kPer];
    for (int base = 0; base < team.size; base += kAtOnce) {
      // Ranks begin with different ones, so that none has to send to all at the same time; each with the next one.
      const int shift = base + kAtOnce <= team.size ? (team.rank + 1) % kAtOnce : 0;
      Pack<T> got[kUnroll][kAtOnce];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        const int rank = base + (r + shift) % kAtOnce;
        if (rank >= team.size) continue;
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          if (first + u * threads < packs)
            got[u][r] = load_pack(reinterpret_cast<const T*>(all.send[rank] + skip), first + u * threads, count, true);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) rotate(got[u], shift);
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        if (base + r >= team.size) continue;
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
          for (int k = 0; k < kPer; ++k) {
            const typename A::type value = A::load(got[u][r].values[k]);
            sums[u][k] = r == 0 && base == 0 ? value : combine(adds ? ReduceOp::sum : op, sums[u][k], value);
          }
      }
    }
    use_sums<T>(sums, first, threads, packs, op, team.size, use);
  }
}
template <class T, class Use>
__device__ __forceinline__ void add_directly(const TeamView& team, const Addresses& all, size_t skip, size_t count,
                                             ReduceOp op, const Use& use) {
  if (op != ReduceOp::sum && op != ReduceOp::avg)
    add_buffers<T, false, 1, kRanksAtOnce>(team, all, skip, count, op, use);
  else if (team.size == 2 && sizeof(T) >= 4)
    add_buffers<T, true, 4, 2>(team, all, skip, count, op, use);
  else
    add_buffers<T, true, sizeof(T) == 1 ? 1 : 2, kRanksAtOnce>(team, all, skip, count, op, use);
}

/// Whether all ranks, but `except`, have shown buffers.
__device__ inline bool all_show(const TeamView& team, const Addresses& all, bool sent, bool received, int except) {
  bool shown = true;
  for (int rank = 0; rank < team.size; ++rank) {
    if (rank == except) continue;
    if (sent) shown = shown && all.send[rank] != nullptr;
    if (received) shown = shown && all.recv[rank] != nullptr;
  }
  return shown;
}
/// Whether the buffers that all ranks show begin at multiples of 16 bytes.
__device__ inline bool all_are_aligned(const TeamView& team, const Addresses& all) {
  bool aligned = true;
  for (int rank = 0; rank < team.size; ++rank)
    aligned = aligned && is_multiple_of_pack(all.send[rank]) && is_multiple_of_pack(all.recv[rank]);
  return aligned;
}

}  // namespace
}  // namespace amdahl

// Kernels of collectives in symmetric memory between GPUs, or partitions of one. Included by one source.
#pragma once

#include "symmetric/cuda_collectives.cuh"
#include "symmetric/cuda_symmetric.cuh"

namespace amdahl {
namespace {

using namespace symmetric_cuda;
using Layout = CudaCollectiveLayout;

/// What a kernel does with `count` elements per rank.
struct ExchangeCall {
  const void* send;
  void* recv;
  size_t count;   // elements of a part in this kernel
  size_t stride;  // elements between the parts of different ranks in `send` and `recv`
  int root;       // the only rank whose part is received; -1: all
  ReduceOp op;
  bool pushes, receives;  // whether this rank does
  bool parts;             // each rank gets another part of `send`
};

template <class T>
__device__ T* at(const TeamView& team, int rank, size_t offset) {
  return reinterpret_cast<T*>(team.base[rank] + offset);
}

/// Elements [begin, end) of this block.
struct BlockRange {
  size_t begin, end;
};
/// The same bytes whatever the type: a rank with other addresses may move them in other units.
template <class T>
__device__ BlockRange block_range(size_t count) {
  constexpr size_t kGrain = 1024 / sizeof(T);
  const size_t part = ((count + gridDim.x - 1) / gridDim.x + kGrain - 1) / kGrain * kGrain;
  const size_t begin = min(count, part * blockIdx.x);
  return {begin, min(count, begin + part)};
}

/// This block's data is at every rank: says so, and waits for the same block of all others. Called by all threads.
__device__ bool meet_blocks(const TeamView& team, int phase, uint64_t epoch) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  bool arrived = !is_broken(team);
  if (arrived && other < team.size && other != team.rank) {
    const auto signal = [&](int on, int of) {
      return at<Signal>(team, on, Layout::kArrived) + (phase * kCollectiveBlocks + blockIdx.x) * kMaxTeamRanks + of;
    };
    store_release(signal(other, team.rank), epoch);
    arrived = wait_for(team, other, [&] { return load_acquire(signal(team.rank, other)) >= epoch; });
  }
  return __syncthreads_and(arrived) != 0;
}

template <class T>
__device__ T load_peer(const T* place) {
  return __ldcg(place);
}

/// Sum of element `i` over the ranks, in their order; `own`: this rank's summand.
template <class T>
__device__ T sum_at(const TeamView& team, const Layout& layout, uint64_t epoch, ReduceOp op, size_t i, T own) {
  using A = Adder<T>;
  typename A::type sum{};
  for (int rank = 0; rank < team.size; ++rank) {
    const T value = rank == team.rank ? own : load_peer(at<T>(team, team.rank, layout.pushed(epoch, rank)) + i);
    sum = rank == 0 ? A::load(value) : combine(op, sum, A::load(value));
  }
  return A::store(finished(op, sum, team.size));
}

/// Every rank pushes to every other one, then uses what it got.
template <class T, bool sums>
__global__ void __launch_bounds__(kCollectiveThreads)
    exchange(const __grid_constant__ TeamView team, const Layout layout, const __grid_constant__ ExchangeCall call) {
  const uint64_t epoch = this_round(team);
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const auto own_part = [&](int rank) { return send + (call.parts ? static_cast<size_t>(rank) * call.stride : 0); };
  const BlockRange range = block_range<T>(call.count);
  if (call.pushes)
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      const T* from = own_part(to);
      T* slot = at<T>(team, to, layout.pushed(epoch, team.rank));
      for (size_t i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) slot[i] = from[i];
    }
  const bool complete = meet_blocks(team, 0, epoch);
  if (complete && call.receives) {
    if constexpr (sums) {
      for (size_t i = range.begin + threadIdx.x; i < range.end; i += blockDim.x)
        recv[i] = sum_at(team, layout, epoch, call.op, i, own_part(team.rank)[i]);
    } else {
      for (int from = 0; from < team.size; ++from) {
        if (call.root >= 0 && from != call.root) continue;
        T* to = recv + (call.root >= 0 ? 0 : static_cast<size_t>(from) * call.stride);
        const T* slot = at<T>(team, team.rank, layout.pushed(epoch, from));
        for (size_t i = range.begin + threadIdx.x; i < range.end; i += blockDim.x)
          to[i] = from == team.rank ? own_part(from)[i] : load_peer(slot + i);
      }
    }
  }
  if (threadIdx.x == 0) end_round(team, epoch, complete);
}

/// All-reduce in two steps: each rank adds up its share and pushes the sums to all.
template <class T>
__global__ void __launch_bounds__(kCollectiveThreads)
    reduce_two_shot(const __grid_constant__ TeamView team, const Layout layout,
                    const __grid_constant__ ExchangeCall call) {
  const uint64_t epoch = this_round(team);
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const size_t share = ((call.count + team.size - 1) / team.size + 15) / 16 * 16;
  const BlockRange block = block_range<T>(share);
  const auto begin_of = [&](int rank) { return min(call.count, static_cast<size_t>(rank) * share + block.begin); };
  const auto end_of = [&](int rank) { return min(call.count, static_cast<size_t>(rank) * share + block.end); };
  for (int step = 1; step < team.size; ++step) {
    const int to = (team.rank + step) % team.size;
    T* slot = at<T>(team, to, layout.pushed(epoch, team.rank));
    const size_t first = static_cast<size_t>(to) * share;
    for (size_t i = begin_of(to) + threadIdx.x; i < end_of(to); i += blockDim.x) slot[i - first] = send[i];
  }
  bool complete = meet_blocks(team, 0, epoch);
  if (complete) {
    const size_t first = static_cast<size_t>(team.rank) * share;
    for (size_t i = begin_of(team.rank) + threadIdx.x; i < end_of(team.rank); i += blockDim.x) {
      const T sum = sum_at(team, layout, epoch, call.op, i - first, send[i]);
      recv[i] = sum;
      for (int step = 1; step < team.size; ++step)
        at<T>(team, (team.rank + step) % team.size, layout.sums(epoch))[i] = sum;
    }
    complete = meet_blocks(team, 1, epoch);
  }
  if (complete)
    for (int from = 0; from < team.size; ++from) {
      if (from == team.rank) continue;
      const T* sums = at<T>(team, team.rank, layout.sums(epoch));
      for (size_t i = begin_of(from) + threadIdx.x; i < end_of(from); i += blockDim.x) recv[i] = load_peer(sums + i);
    }
  if (threadIdx.x == 0) end_round(team, epoch, complete);
}

__device__ __forceinline__ void store_flagged(uint64_t* place, uint32_t word, uint32_t flag) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(place), "l"(uint64_t{flag} << 32 | word) : "memory");
}
__device__ __forceinline__ bool load_flagged(const uint64_t* place, uint32_t flag, uint32_t& word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(place) : "memory");
  word = static_cast<uint32_t>(value);
  return value >> 32 == flag;
}

/// As end_round, of a kernel whose data carry their flags: it has a counter of rounds of its own.
__device__ __forceinline__ void end_flagged_round(const TeamView& team, FlaggedState* state, uint64_t round,
                                                  bool complete) {
  if (!complete) set_broken(team);
  __threadfence();
  if (atomicAdd(&state->finished_blocks, 1u) + 1 != gridDim.x) return;
  state->finished_blocks = 0;
  state->round = round;
}

/// All-reduce whose every 4 bytes carry a flag: no other signal, one hop.
template <class T>
__global__ void __launch_bounds__(kCollectiveThreads)
    reduce_flagged(const __grid_constant__ TeamView team, const Layout layout,
                   const __grid_constant__ ExchangeCall call) {
  constexpr size_t kPerWord = sizeof(uint32_t) / sizeof(T);
  constexpr size_t kAllWords = Layout::kFlaggedBytes / sizeof(uint32_t);
  union Word {
    uint32_t bits;
    T values[kPerWord];
    __device__ Word() : bits(0) {}
  };
  auto* state = at<FlaggedState>(team, team.rank, Layout::kState);
  const uint64_t round = state->round + 1;
  const auto flag = static_cast<uint32_t>(round % kFlagPeriod) + 1;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const size_t words = (call.count + kPerWord - 1) / kPerWord;
  const size_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = size_t{gridDim.x} * blockDim.x;
  const auto own_word = [&](size_t i) {
    Word word;
    for (size_t k = 0; k < kPerWord && i * kPerWord + k < call.count; ++k) word.values[k] = send[i * kPerWord + k];
    return word;
  };
  // In the first round of each set and period every word is written, so that no flag of an earlier period remains.
  const size_t written = round % kFlagPeriod < 2 ? kAllWords : words;
  bool complete = !is_broken(team);
  if (complete)
    for (size_t i = first; i < written; i += stride) {
      const uint32_t bits = i < words ? own_word(i).bits : 0;
      for (int step = 1; step < team.size; ++step) {
        const int to = (team.rank + step) % team.size;
        store_flagged(at<uint64_t>(team, to, layout.flagged(round, team.rank)) + i, bits, flag);
      }
    }
  for (size_t i = first; complete && i < words; i += stride) {
    using A = Adder<T>;
    typename A::type sums[kPerWord];
    const Word own = own_word(i);
    for (int rank = 0; complete && rank < team.size; ++rank) {
      Word word = own;
      if (rank != team.rank) {
        const uint64_t* place = at<uint64_t>(team, team.rank, layout.flagged(round, rank)) + i;
        complete = wait_for(team, rank, [&] { return load_flagged(place, flag, word.bits); });
      }
      for (size_t k = 0; k < kPerWord; ++k)
        sums[k] = rank == 0 ? A::load(word.values[k]) : combine(call.op, sums[k], A::load(word.values[k]));
    }
    for (size_t k = 0; complete && k < kPerWord && i * kPerWord + k < call.count; ++k)
      recv[i * kPerWord + k] = A::store(finished(call.op, sums[k], team.size));
  }
  complete = __syncthreads_and(complete) != 0;
  if (threadIdx.x == 0) end_flagged_round(team, state, round, complete);
}

}  // namespace
}  // namespace amdahl

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
  size_t count;   // elements of a part
  size_t stride;  // elements between the parts of different ranks in `send` and `recv`
  int root;       // the only rank whose part is received; -1: all
  int target;     // the only rank that receives; -1: all
  ReduceOp op;
  bool pushes, receives;  // whether this rank does
  bool parts;             // each rank gets another part of `send`
};

template <class T>
__device__ T* at(const TeamView& team, int rank, size_t offset) {
  return reinterpret_cast<T*>(team.base[rank] + offset);
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

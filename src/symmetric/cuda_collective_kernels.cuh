// Kernels of collectives in symmetric memory between GPUs, or partitions of one. Included by one source.
#pragma once

#include "symmetric/cuda_collectives.cuh"
#include "symmetric/cuda_flagged.cuh"

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
  /// The ranks tell each other where their buffers are and access them directly, if all can. `shown`: what others may
  /// access, null for what they cannot or must not.
  bool meets = false;
  const void* shown_send = nullptr;
  void* shown_recv = nullptr;
};

/// Where all ranks add up a share each: elements of a share, of which each begins at a multiple of 16 bytes.
__host__ __device__ inline size_t share_of(size_t count, size_t owners) {
  return ((count + owners - 1) / owners + 15) / 16 * 16;
}

/// Ranks whose data a thread loads before it uses any.
constexpr int kRanksAtOnce = 4;
/// Bit u: there is a rank base + u.
__device__ __forceinline__ unsigned ranks_at_once(const TeamView& team, int base) {
  return (1u << min(kRanksAtOnce, team.size - base)) - 1;
}

/// All-reduce whose every 4 bytes carry a flag: no other signal, one hop. A thread moves 8 bytes at a time.
template <class T>
__global__ void __launch_bounds__(kCollectiveThreads)
    reduce_flagged(const __grid_constant__ TeamView team, const __grid_constant__ Layout layout,
                   const __grid_constant__ ExchangeCall call) {
  constexpr size_t kPerPair = sizeof(uint64_t) / sizeof(T);
  constexpr size_t kAllPairs = Layout::kFlaggedBytes / sizeof(uint64_t);
  union Pair {
    uint64_t bits;
    uint32_t words[2];
    T values[kPerPair];
    __device__ Pair() : bits(0) {}
  };
  begin_after_previous();
  const FlaggedRound round(team, Layout::kState);
  const uint64_t flag = (round.number() % kFlagPeriod + 1) << 32;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const size_t pairs = (call.count + kPerPair - 1) / kPerPair;
  const size_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = size_t{gridDim.x} * blockDim.x;
  const auto is_whole = [&](const T* base, size_t i) {
    return reinterpret_cast<uintptr_t>(base) % sizeof(uint64_t) == 0 && (i + 1) * kPerPair <= call.count;
  };
  const auto own_pair = [&](size_t i) {
    Pair pair;
    if (is_whole(send, i)) {
      pair.bits = __ldcg(reinterpret_cast<const unsigned long long*>(send + i * kPerPair));
    } else {
#pragma unroll
      for (size_t k = 0; k < kPerPair; ++k)
        if (i * kPerPair + k < call.count) pair.values[k] = send[i * kPerPair + k];
    }
    return pair;
  };
  const auto place_of = [&](int on, int from, size_t i) {
    return at<uint64_t>(team, on, layout.flagged(round.number(), from)) + 2 * i;
  };
  // In the first round of each set and period every word is written, so that no flag of an earlier period remains.
  const size_t written = round.number() % kFlagPeriod < 2 ? kAllPairs : pairs;
  Pair own = own_pair(first);
  bool complete = !is_broken(team);
  for (size_t i = first; complete && i < written; i += stride) {
    const Pair pair = i == first ? own : own_pair(i);
    const uint64_t words[2] = {flag | pair.words[0], flag | pair.words[1]};
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      store_sixteen(place_of(to, team.rank, i), words);
    }
  }
  for (size_t i = first; complete && i < pairs; i += stride) {
    using A = Adder<T>;
    typename A::type sums[kPerPair];
    if (i != first) own = own_pair(i);
    for (int base = 0; complete && base < team.size; base += kRanksAtOnce) {
      uint64_t words[kRanksAtOnce][2] = {};
      const unsigned ranks = ranks_at_once(team, base);
      uint64_t start = 0;
      unsigned missing = 1;
      for (unsigned poll = 1; complete && missing != 0; ++poll) {
        missing = 0;
#pragma unroll
        for (int u = 0; u < kRanksAtOnce; ++u)
          if ((ranks >> u & 1) && base + u != team.rank) load_sixteen(place_of(team.rank, base + u, i), words[u]);
#pragma unroll
        for (int u = 0; u < kRanksAtOnce; ++u)
          if ((ranks >> u & 1) && base + u != team.rank &&
              (words[u][0] >> 32 != flag >> 32 || words[u][1] >> 32 != flag >> 32))
            missing |= 1u << u;
        if (missing != 0 && poll % kPollsPerLook == 0)
          complete = !look_is_last(team, start, base + __ffs(static_cast<int>(missing)) - 1);
      }
#pragma unroll
      for (int u = 0; u < kRanksAtOnce; ++u) {
        if (!(ranks >> u & 1)) continue;
        Pair pair = own;
        if (base + u != team.rank)
          pair.words[0] = static_cast<uint32_t>(words[u][0]), pair.words[1] = static_cast<uint32_t>(words[u][1]);
#pragma unroll
        for (size_t k = 0; k < kPerPair; ++k) {
          const typename A::type value = A::load(pair.values[k]);
          sums[k] = u == 0 && base == 0 ? value : combine(call.op, sums[k], value);
        }
      }
    }
    if (!complete) break;
    Pair result;
#pragma unroll
    for (size_t k = 0; k < kPerPair; ++k) result.values[k] = A::store(finished(call.op, sums[k], team.size));
    if (is_whole(recv, i)) {
      *reinterpret_cast<uint64_t*>(recv + i * kPerPair) = result.bits;
    } else {
#pragma unroll
      for (size_t k = 0; k < kPerPair; ++k)
        if (i * kPerPair + k < call.count) recv[i * kPerPair + k] = result.values[k];
    }
  }
  round.end(__syncthreads_and(complete) != 0);
}

}  // namespace
}  // namespace amdahl

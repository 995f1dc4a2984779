// All-reduce in lines of 128 bytes (LL128 of NCCL): 120 bytes of data and a flag of 8 bytes. Included by one source.
//
// The eight lanes that have a line store and load it by one instruction of their warp, 16 bytes each; the flag is in
// the last 8 bytes. Links between GPUs, and one GPU's memory, keep such an access whole: who sees the flag sees the
// line. Links over PCIe do not, see lines_are_whole.
#pragma once

#include "symmetric/cuda_collective_kernels.cuh"

namespace amdahl {
namespace {

constexpr int kLanesPerLine = Layout::kLineBytes / 16;
constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ __forceinline__ void store_sixteen(uint64_t* place, const uint64_t* words) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(place), "l"(words[0]), "l"(words[1]) : "memory");
}
__device__ __forceinline__ void load_sixteen(const uint64_t* place, uint64_t* words) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(place) : "memory");
}

/// Loads this lane's part of a line of rank `from` until its flag is there. Called by all lanes of a warp; those
/// without a line pass `active` false. Returns the same value to all: false after an abandoned wait.
__device__ __forceinline__ bool await_line(const TeamView& team, int from, bool active, bool has_flag, uint64_t flag,
                                           const uint64_t* place, uint64_t* words) {
  constexpr unsigned kPollsPerLook = 256;
  const uint64_t start = now_ns();
  for (unsigned poll = 1;; ++poll) {
    if (active) load_sixteen(place, words);
    if (__all_sync(kWholeWarp, !active || !has_flag || words[1] == flag)) return true;
    if (poll % kPollsPerLook == 0 &&
        __any_sync(kWholeWarp, threadIdx.x % warpSize == 0 && wait_is_over(team, start, from)))
      return false;
  }
}

/// The number of threads of a block is a multiple of that of a warp.
template <class T>
__global__ void __launch_bounds__(kCollectiveThreads)
    reduce_lines(const __grid_constant__ TeamView team, const Layout layout,
                 const __grid_constant__ ExchangeCall call) {
  constexpr size_t kPerLane = 16 / sizeof(T), kPerLine = Layout::kLineData / sizeof(T);
  union Part {
    uint64_t words[2];
    T values[kPerLane];
    __device__ Part() : words{0, 0} {}
  };
  using A = Adder<T>;
  auto* state = at<FlaggedState>(team, team.rank, Layout::kLineState);
  const uint64_t round = state->round + 1;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const size_t lines = (call.count + kPerLine - 1) / kPerLine;
  const unsigned lane = threadIdx.x % kLanesPerLine;
  const bool has_flag = lane + 1 == kLanesPerLine;
  const size_t mine = has_flag ? kPerLane / 2 : kPerLane;
  const size_t group = threadIdx.x % warpSize / kLanesPerLine;  // this lane's line among those of its warp
  const size_t first = (size_t{blockIdx.x} * blockDim.x + threadIdx.x) / warpSize * (warpSize / kLanesPerLine);
  const size_t stride = size_t{gridDim.x} * blockDim.x / kLanesPerLine;
  const auto begin_of = [&](size_t line) { return line * kPerLine + lane * kPerLane; };
  const auto own_part = [&](size_t line) {
    Part part;
    for (size_t k = 0; k < mine && begin_of(line) + k < call.count; ++k) part.values[k] = send[begin_of(line) + k];
    return part;
  };
  const auto place_of = [&](int on, int from, size_t line) {
    return at<uint64_t>(team, on, layout.line(round, from)) + line * (Layout::kLineBytes / 8) + lane * 2;
  };
  bool complete = __syncthreads_and(!is_broken(team)) != 0;
  // All lanes of a warp make the same turns, so that each line is one access.
  for (size_t turn = first; complete && turn < lines; turn += stride) {
    const size_t line = turn + group;
    const bool active = line < lines;
    Part part = own_part(active ? line : turn);
    if (has_flag) part.words[1] = round;
    __syncwarp();
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      if (active) store_sixteen(place_of(to, team.rank, line), part.words);
    }
  }
  for (size_t turn = first; complete && turn < lines; turn += stride) {
    const size_t line = turn + group;
    const bool active = line < lines;
    const Part own = own_part(active ? line : turn);
    typename A::type sums[kPerLane];
    for (int rank = 0; complete && rank < team.size; ++rank) {
      Part part = own;
      if (rank != team.rank) {
        __syncwarp();
        complete = await_line(team, rank, active, has_flag, round, place_of(team.rank, rank, line), part.words);
      }
      for (size_t k = 0; k < mine; ++k)
        sums[k] = rank == 0 ? A::load(part.values[k]) : combine(call.op, sums[k], A::load(part.values[k]));
    }
    for (size_t k = 0; complete && active && k < mine && begin_of(line) + k < call.count; ++k)
      recv[begin_of(line) + k] = A::store(finished(call.op, sums[k], team.size));
  }
  complete = __syncthreads_and(complete) != 0;
  if (threadIdx.x == 0) end_flagged_round(team, state, round, complete);
}

}  // namespace
}  // namespace amdahl

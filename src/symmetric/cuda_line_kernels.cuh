// All-reduce in lines of 128 bytes (LL128 of NCCL): 120 bytes of data and a flag of 8 bytes. Included by one source.
//
// The eight lanes that have a line store and load it by one instruction of their warp, 16 bytes each; the flag is in
// the last 8 bytes. Links between GPUs, and one GPU's memory, keep such an access whole: who sees the flag sees the
// line. Links over PCIe do not, see lines_are_whole_.
#pragma once

#include "symmetric/cuda_collective_kernels.cuh"

namespace amdahl {
namespace {

constexpr int kLanesPerLine = Layout::kLineBytes / 16;
constexpr unsigned kWholeWarp = 0xffffffffu;

/// 16 bytes as elements, of which the lane with the flag has 8.
template <class T>
union LinePart {
  static constexpr size_t kCount = 16 / sizeof(T);
  uint64_t words[2];
  T values[kCount];
  __device__ LinePart() : words{0, 0} {}
};

/// Lines of the warps of a kernel: the lines of a warp are those from `turn` on, one per group of kLanesPerLine lanes.
/// The number of threads of a block is a multiple of that of a warp. All lanes of a warp make the same turns, so that
/// each line is one access.
template <class T>
class LineLanes {
 public:
  static constexpr size_t kPerLine = Layout::kLineData / sizeof(T);
  using Part = LinePart<T>;

  __device__ LineLanes()
      : lane(threadIdx.x % kLanesPerLine),
        group(threadIdx.x % warpSize / kLanesPerLine),
        first((size_t{blockIdx.x} * blockDim.x + threadIdx.x) / warpSize * (warpSize / kLanesPerLine)),
        stride(size_t{gridDim.x} * blockDim.x / kLanesPerLine) {}

  __device__ bool has_flag() const { return lane + 1 == kLanesPerLine; }
  __device__ static size_t lines_of(size_t count) { return (count + kPerLine - 1) / kPerLine; }
  /// This lane's part of a line of `count` elements; zeros after the last one.
  __device__ Part load(const T* from, size_t line, size_t count) const {
    Part part;
    const size_t begin = line * kPerLine + lane * Part::kCount;
    if (is_whole(from, begin, count)) {
      const auto* words = reinterpret_cast<const uint64_t*>(from + begin);
      part.words[0] = __ldcg(reinterpret_cast<const unsigned long long*>(words));
      if (!has_flag()) part.words[1] = __ldcg(reinterpret_cast<const unsigned long long*>(words + 1));
    } else {
#pragma unroll
      for (size_t k = 0; k < Part::kCount; ++k)
        if (k < mine() && begin + k < count) part.values[k] = from[begin + k];
    }
    return part;
  }
  __device__ void store(T* to, size_t line, size_t count, const Part& part) const {
    const size_t begin = line * kPerLine + lane * Part::kCount;
    if (is_whole(to, begin, count)) {
      auto* words = reinterpret_cast<uint64_t*>(to + begin);
      words[0] = part.words[0];
      if (!has_flag()) words[1] = part.words[1];
    } else {
#pragma unroll
      for (size_t k = 0; k < Part::kCount; ++k)
        if (k < mine() && begin + k < count) to[begin + k] = part.values[k];
    }
  }
  /// This lane's place in a line of a message that begins at `lines`.
  __device__ uint64_t* place(uint64_t* lines, size_t line) const {
    return lines + line * (Layout::kLineBytes / sizeof(uint64_t)) + lane * 2;
  }

  const unsigned lane, group;  // this lane in its line, and its line among those of its warp
  const size_t first, stride;  // of the turns of its warp

 private:
  __device__ size_t mine() const { return has_flag() ? Part::kCount / 2 : Part::kCount; }
  __device__ bool is_whole(const T* base, size_t begin, size_t count) const {
    return reinterpret_cast<uintptr_t>(base) % sizeof(uint64_t) == 0 && begin + mine() <= count;
  }
};

/// Loads this lane's part of a line of each of the ranks base + u whose bit u is in `wanted` until all flags are there.
/// `place(rank)`: of this lane. Called by all lanes of a warp. Returns the same value to all: false after an abandoned
/// wait.
template <class Place>
__device__ __forceinline__ bool await_lines(const TeamView& team, int base, unsigned wanted, bool has_flag,
                                            uint64_t flag, const Place& place, uint64_t (&words)[kRanksAtOnce][2]) {
  uint64_t start = 0;
  for (unsigned poll = 1;; ++poll) {
    unsigned missing = 0;
#pragma unroll
    for (int u = 0; u < kRanksAtOnce; ++u)
      if (wanted >> u & 1) load_sixteen(place(base + u), words[u]);
#pragma unroll
    for (int u = 0; u < kRanksAtOnce; ++u)
      if ((wanted >> u & 1) && has_flag && words[u][1] != flag) missing |= 1u << u;
    if (__all_sync(kWholeWarp, missing == 0)) return true;
    if (poll % kPollsPerLook != 0) continue;
    const int from = base + __ffs(static_cast<int>(__reduce_or_sync(kWholeWarp, missing))) - 1;
    if (__any_sync(kWholeWarp, threadIdx.x % warpSize == 0 && look_is_last(team, start, from))) return false;
  }
}

/// Adds up this lane's part of a line over all ranks, in their order: `own` and lines at place(rank).
template <class T, class Place>
__device__ __forceinline__ bool add_lines(const TeamView& team, ReduceOp op, bool active, const LineLanes<T>& lanes,
                                          uint64_t flag, const LinePart<T>& own, const Place& place,
                                          LinePart<T>& result) {
  using A = Adder<T>;
  typename A::type sums[LinePart<T>::kCount];
  for (int base = 0; base < team.size; base += kRanksAtOnce) {
    uint64_t words[kRanksAtOnce][2] = {};
    const unsigned ranks = ranks_at_once(team, base);
    const unsigned others =
        team.rank >= base && team.rank < base + kRanksAtOnce ? ranks & ~(1u << (team.rank - base)) : ranks;
    if (!await_lines(team, base, active ? others : 0, lanes.has_flag(), flag, place, words)) return false;
#pragma unroll
    for (int u = 0; u < kRanksAtOnce; ++u) {
      if (!(ranks >> u & 1)) continue;
      LinePart<T> part = own;
      if (others >> u & 1) part.words[0] = words[u][0], part.words[1] = words[u][1];
#pragma unroll
      for (size_t k = 0; k < LinePart<T>::kCount; ++k) {
        const typename A::type value = A::load(part.values[k]);
        sums[k] = u == 0 && base == 0 ? value : combine(op, sums[k], value);
      }
    }
  }
#pragma unroll
  for (size_t k = 0; k < LinePart<T>::kCount; ++k) result.values[k] = A::store(finished(op, sums[k], team.size));
  return true;
}

/// One shot: every rank pushes to all others and adds up.
template <class T>
__global__ void __launch_bounds__(kCollectiveThreads)
    reduce_lines(const __grid_constant__ TeamView team, const __grid_constant__ Layout layout,
                 const __grid_constant__ ExchangeCall call) {
  begin_after_previous();
  const FlaggedRound round(team, Layout::kLineState);
  const LineLanes<T> lanes;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const size_t lines = lanes.lines_of(call.count);
  const auto place_of = [&](int on, int from, size_t line) {
    return lanes.place(at<uint64_t>(team, on, layout.line(round.number(), 0, from)), line);
  };
  LinePart<T> own = lanes.load(send, lanes.first + lanes.group, call.count);
  bool complete = !__any_sync(kWholeWarp, is_broken(team));
  for (size_t turn = lanes.first; complete && turn < lines; turn += lanes.stride) {
    const size_t line = turn + lanes.group;
    LinePart<T> part = turn == lanes.first ? own : lanes.load(send, line, call.count);
    if (lanes.has_flag()) part.words[1] = round.number();
    __syncwarp();
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      if (line < lines) store_sixteen(place_of(to, team.rank, line), part.words);
    }
  }
  for (size_t turn = lanes.first; complete && turn < lines; turn += lanes.stride) {
    const size_t line = turn + lanes.group;
    if (turn != lanes.first) own = lanes.load(send, line, call.count);
    __syncwarp();
    LinePart<T> sum;
    complete = add_lines(
        team, call.op, line < lines, lanes, round.number(), own,
        [&](int rank) { return place_of(team.rank, rank, line); }, sum);
    if (complete) lanes.store(recv, line, call.count, sum);
  }
  round.end(__syncthreads_and(complete) != 0);
}

/// Two steps: every rank adds up a share and pushes it on.
template <class T>
__global__ void __launch_bounds__(kCollectiveThreads)
    two_steps_in_lines(const __grid_constant__ TeamView team, const __grid_constant__ Layout layout,
                       const __grid_constant__ ExchangeCall call) {
  begin_after_previous();
  const FlaggedRound round(team, Layout::kLineState);
  const LineLanes<T> lanes;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const size_t share = share_of(call.count, static_cast<size_t>(team.size));
  const size_t lines = lanes.lines_of(share);
  const auto begin_of = [&](int rank) { return min(call.count, static_cast<size_t>(rank) * share); };
  const auto count_of = [&](int rank) { return begin_of(rank + 1) - begin_of(rank); };
  const auto has_line = [&](int rank, size_t line) { return line < lanes.lines_of(count_of(rank)); };
  const auto place_of = [&](int on, int from, int step, size_t line) {
    return lanes.place(at<uint64_t>(team, on, layout.line(round.number(), step, from)), line);
  };
  bool complete = !__any_sync(kWholeWarp, is_broken(team));
  for (size_t turn = lanes.first; complete && turn < lines; turn += lanes.stride) {
    const size_t line = turn + lanes.group;
    for (int step = 1; step < team.size; step += kRanksAtOnce) {
      LinePart<T> parts[kRanksAtOnce];
#pragma unroll
      for (int u = 0; u < kRanksAtOnce; ++u) {
        const int to = (team.rank + step + u) % team.size;
        if (step + u < team.size) parts[u] = lanes.load(send + begin_of(to), line, count_of(to));
        if (lanes.has_flag()) parts[u].words[1] = round.number();
      }
      __syncwarp();
#pragma unroll
      for (int u = 0; u < kRanksAtOnce; ++u) {
        const int to = (team.rank + step + u) % team.size;
        if (step + u < team.size && has_line(to, line)) store_sixteen(place_of(to, team.rank, 0, line), parts[u].words);
      }
    }
  }
  for (size_t turn = lanes.first; complete && turn < lines; turn += lanes.stride) {
    const size_t line = turn + lanes.group;
    const bool active = has_line(team.rank, line);
    const LinePart<T> own = lanes.load(send + begin_of(team.rank), line, count_of(team.rank));
    LinePart<T> sum;
    __syncwarp();
    complete = add_lines(
        team, call.op, active, lanes, round.number(), own, [&](int rank) { return place_of(team.rank, rank, 0, line); },
        sum);
    if (!complete) break;
    lanes.store(recv + begin_of(team.rank), line, count_of(team.rank), sum);
    if (lanes.has_flag()) sum.words[1] = round.number();
    __syncwarp();
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      if (active) store_sixteen(place_of(to, team.rank, 1, line), sum.words);
    }
  }
  for (size_t turn = lanes.first; complete && turn < lines; turn += lanes.stride) {
    const size_t line = turn + lanes.group;
    for (int base = 0; complete && base < team.size; base += kRanksAtOnce) {
      uint64_t words[kRanksAtOnce][2] = {};
      unsigned wanted = 0;
#pragma unroll
      for (int u = 0; u < kRanksAtOnce; ++u)
        if (base + u < team.size && base + u != team.rank && has_line(base + u, line)) wanted |= 1u << u;
      __syncwarp();
      complete = await_lines(
          team, base, wanted, lanes.has_flag(), round.number(),
          [&](int rank) { return place_of(team.rank, rank, 1, line); }, words);
#pragma unroll
      for (int u = 0; u < kRanksAtOnce; ++u) {
        if (!complete || !(wanted >> u & 1)) continue;
        LinePart<T> part;
        part.words[0] = words[u][0], part.words[1] = words[u][1];
        lanes.store(recv + begin_of(base + u), line, count_of(base + u), part);
      }
    }
  }
  round.end(__syncthreads_and(complete) != 0);
}

}  // namespace
}  // namespace amdahl

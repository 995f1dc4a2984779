// Second step of a voxelization with values: the points of a bin are listed by voxel in shared memory; then the voxel's
// values are read once, added up in registers and written once. No atomics on values, so a fixed-point sum costs as
// much as a float one.
#include "sensor/voxels/cuda_voxel_rules.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr uint32_t kListed = 12288;  // points whose list fits into shared memory, 48 KiB
constexpr uint32_t kLong = 8;        // points from which a warp adds up a voxel
constexpr uint32_t kVeryLong = 512;  // and a block
/// Columns among which the lanes of a warp divide. The shared memory of more is taken from the cache, which costs 15 %
/// of 20 M points (H200).
template <class Sum>
constexpr uint32_t kSplit = sizeof(Sum) <= 16 ? 2 : 1;

/// What a block adds up: a bin, or every 2^bits-th voxel of it. A voxel of the share is named by its place among them.
struct Share {
  uint32_t bin, bits, first;
  __device__ uint32_t voxels(const BinArgs& bins) const { return bins.bin_voxels() >> bits; }
  __device__ bool has(uint32_t offset) const { return (offset & ((1u << bits) - 1)) == first; }
  __device__ uint32_t place(uint32_t offset) const { return offset >> bits; }
  __device__ uint32_t voxel(const BinArgs& bins, uint32_t place) const {
    return voxel_of(bins, bin, place << bits | first);
  }
};

/// The lists of a share: the points of voxel v are order[begin(v), ends[v]).
struct Lists {
  uint32_t* ends;
  uint32_t* order;
  __device__ uint32_t begin(uint32_t offset) const { return ends[static_cast<int>(offset) - 1]; }  // ends[-1] is 0
};

/// What lists of a share take in shared memory; longer ones are in global memory.
struct ListMemory {
  uint32_t* ends;    // [bin_voxels], after a 0
  uint32_t* order;   // [kListed]
  uint16_t* places;  // [bin_voxels]

  __device__ ListMemory(void* memory, const BinArgs& bins)
      : ends(static_cast<uint32_t*>(memory) + 4),
        order(ends + bins.bin_voxels()),
        places(reinterpret_cast<uint16_t*>(order + kListed)) {}
  static size_t bytes(const BinArgs& bins) {
    return (4 + size_t{bins.bin_voxels()} + kListed) * sizeof(uint32_t) + bins.bin_voxels() * sizeof(uint16_t);
  }
};

/// Sorts the points of a share by voxel.
template <bool kDealt>
__device__ Lists make_lists(const BinArgs& bins, const Share& share, const ListMemory& memory, uint32_t* warps,
                            uint32_t& place) {
  uint32_t* ends = memory.ends;
  for_each_entry<kDealt, ValueRow, ValueReads, kThreads>(
      bins, share.bin, [] {},
      [&](bool there, uint32_t entry, int) {
        if (there && share.has(offset_of(entry))) atomicAdd(&ends[share.place(offset_of(entry))], 1u);
      });
  const uint32_t total = scan_block<kThreads>(ends, share.voxels(bins), warps);
  if (threadIdx.x == 0 && total > kListed) place = atomicAdd(bins.cursor, total);
  __syncthreads();
  uint32_t* order = total > kListed ? bins.order + place : memory.order;
  for_each_entry<kDealt, ValueRow, ValueReads, kThreads>(
      bins, share.bin, [] {},
      [&](bool there, uint32_t entry, int tile) {
        if (there && share.has(offset_of(entry)))
          order[atomicAdd(&ends[share.place(offset_of(entry))], 1u)] = bins.point_of<kDealt>(entry, tile);
      });
  return {ends, order};
}

/// How the lanes of a block divide among the columns of one voxel's points.
struct Split {
  uint32_t step;  // columns that are added up at once
  uint32_t column, lane;
  __device__ Split(uint32_t columns, uint32_t most)
      : step(columns <= most && (columns & (columns - 1)) == 0 ? columns : 1),
        column(threadIdx.x % step),
        lane(threadIdx.x / step) {}
};

/// Adds up voxels of more than kLong points, found in `longs`. `of_warps`: [warps, kSplit].
template <class Rule, class T, int N>
__device__ void add_long(const BinArgs& bins, const Share& share, const ValueArgs& args, const Lists& lists,
                         const uint16_t* longs, uint32_t num_long, Sums<Rule, T, N>* of_warps) {
  const uint32_t warp = threadIdx.x / 32, columns = args.columns;
  constexpr uint32_t kMost = kSplit<Sums<Rule, T, N>>;
  const Split split(columns, kMost);
  const uint32_t lanes = 32 / split.step, lane = split.lane % lanes;
  for (uint32_t i = warp; i < num_long; i += kThreads / 32) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin > kVeryLong) continue;
    for (uint32_t column = split.column; column < columns; column += split.step) {
      Sums<Rule, T, N> sums(args);
#pragma unroll 4
      for (uint32_t at = begin + lane; at < end; at += lanes) sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.join_warp(split.step);
      if (lane == 0) sums.write(args, share.voxel(bins, longs[i]), column, end - begin);
    }
  }
  for (uint32_t i = 0; i < num_long; ++i) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin <= kVeryLong) continue;
    for (uint32_t column = split.column; column < columns; column += split.step) {
      Sums<Rule, T, N> sums(args);
#pragma unroll 4
      for (uint32_t at = begin + split.lane; at < end; at += kThreads / split.step)
        sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.join_warp(split.step);
      if (lane == 0) of_warps[warp * kMost + split.column] = sums;
      __syncthreads();
      if (split.lane == 0) {
        for (int w = 1; w < kThreads / 32; ++w) sums.join(of_warps[w * kMost + split.column]);
        sums.write(args, share.voxel(bins, longs[i]), column, end - begin);
      }
      __syncthreads();
    }
  }
}

/// Voxels of a share by how they are added up: from the front those of few points, from the back those of more than
/// kLong.
struct Found {
  uint16_t* places;
  uint32_t num_short, num_long;
};

/// Lists the voxels of a share that hold points.
__device__ void find_voxels(const BinArgs& bins, const Share& share, const Lists& lists, int32_t* counts,
                            Found& found) {
  const uint32_t voxels = share.voxels(bins);
  const unsigned lanes_below = (1u << threadIdx.x % 32) - 1;
  for (uint32_t at = threadIdx.x; at < voxels; at += kThreads) {  // whole warps: both are multiples of 32
    const uint32_t count = lists.ends[at] - lists.begin(at);
    if (counts) {
      const uint32_t voxel = share.voxel(bins, at);
      if (voxel < bins.num_voxels) counts[voxel] = static_cast<int32_t>(count);
    }
    const bool few = count > 0 && count <= kLong;
    const unsigned mask = __ballot_sync(~0u, few);
    uint32_t place = 0;
    if (threadIdx.x % 32 == 0 && mask != 0) place = atomicAdd(&found.num_short, static_cast<uint32_t>(__popc(mask)));
    place = __shfl_sync(~0u, place, 0) + __popc(mask & lanes_below);
    if (few) found.places[place] = static_cast<uint16_t>(at);
    if (count > kLong) found.places[voxels - 1 - atomicAdd(&found.num_long, 1u)] = static_cast<uint16_t>(at);
  }
}

/// Writes the rows of the empty voxels of a share.
template <class Rule, class T, int N>
__device__ void write_empty(const BinArgs& bins, const Share& share, const ValueArgs& args, const Lists& lists,
                            uint32_t first, uint32_t step, uint32_t column) {
  const Sums<Rule, T, N> none(args);
  const uint32_t voxels = share.voxels(bins);
#pragma unroll 4
  for (uint32_t at = first; at < voxels; at += step) {
    const uint32_t voxel = share.voxel(bins, at);
    if (lists.ends[at] == lists.begin(at) && voxel < bins.num_voxels) none.write(args, voxel, column, 0);
  }
}

/// Adds up the voxels of few points. A thread keeps its column of the features; the first points of several voxels are
/// read together.
template <class Rule, class T, int N>
__device__ void add_short(const BinArgs& bins, const Share& share, const ValueArgs& args, const Lists& lists,
                          const Found& found, uint32_t first, uint32_t step, uint32_t column) {
  constexpr int kAhead = 4;
  for (uint32_t base = first; base < found.num_short; base += step * kAhead) {
    uint32_t place[kAhead], begin[kAhead], end[kAhead];
    Pack<T, N> head[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (base + k * step >= found.num_short) continue;
      place[k] = found.places[base + k * step];
      begin[k] = lists.begin(place[k]), end[k] = lists.ends[place[k]];
      head[k] = load<T, N>(args, lists.order[begin[k]], column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (base + k * step >= found.num_short) continue;
      Sums<Rule, T, N> sums(args);
      sums.add(args, head[k]);
#pragma unroll 2
      for (uint32_t at = begin[k] + 1; at < end[k]; ++at) sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.write(args, share.voxel(bins, place[k]), column, end[k] - begin[k]);
    }
  }
}

/// A share whose points are listed by voxel.
template <class Rule, class T, int N, bool kDealt>
__device__ void add_listed(const BinArgs& bins, const Share& share, const ValueArgs& args, const ListMemory& memory,
                           uint32_t* warps) {
  __shared__ uint32_t place;
  __shared__ Found found;
  using Sum = Sums<Rule, T, N>;
  __shared__ alignas(Sum) unsigned char of_warps[kThreads / 32 * kSplit<Sum> * sizeof(Sum)];
  const uint32_t voxels = share.voxels(bins);
  for (uint32_t i = threadIdx.x; i < voxels + 4; i += kThreads) (memory.ends - 4)[i] = 0;
  if (threadIdx.x == 0) found = {memory.places, 0, 0};
  __syncthreads();
  const Lists lists = make_lists<kDealt>(bins, share, memory, warps, place);
  find_voxels(bins, share, lists, args.counts, found);
  __syncthreads();
  // Points with few features stand side by side.
  const uint32_t step = max(1u, kThreads / args.columns);
  const bool narrow = args.columns < kThreads;
  const uint32_t first = narrow ? threadIdx.x / args.columns : 0;
  const uint32_t first_column = narrow ? threadIdx.x % args.columns : threadIdx.x;
  if (first < step)
    for (uint32_t column = first_column; column < args.columns; column += kThreads) {
      add_short<Rule, T, N>(bins, share, args, lists, found, first, step, column);
      write_empty<Rule, T, N>(bins, share, args, lists, first, step, column);
    }
  __syncthreads();
  if (found.num_long > 0)
    add_long<Rule, T, N>(bins, share, args, lists, found.places + voxels - found.num_long, found.num_long,
                         reinterpret_cast<Sum*>(of_warps));
}

/// Bits of the shares into which crowded bins are divided, so that there is one for every block.
__device__ uint32_t share_bits(const BinArgs& bins, uint32_t num_crowded) {
  constexpr uint32_t kMostBits = 4;
  uint32_t bits = 0;
  while (bits < kMostBits && num_crowded << (bits + 1) <= blocks_for_bins() && (bins.bin_voxels() >> bits) % 64 == 0)
    ++bits;
  return bits;
}

/// Finds the item-th share of the bins that the step before has left as crowded; false where there are fewer. All
/// threads get one answer; `ranks` has room for a word for each bin. Blocks that come while the step before still
/// looks at bins ask again for a while, and then wait for its end. What the first step has written is there either way.
__device__ bool find_share(const BinArgs& bins, uint32_t item, uint32_t* ranks, uint32_t* warps, Share& share) {
  constexpr int kMostTries = 64;
  constexpr unsigned kPauseNs = 200;
  __shared__ uint32_t found;
  const auto* densities = const_cast<const volatile BinDensity*>(bins.densities);
  bool any = false, unknown = true;
  for (int tries = 0; __syncthreads_or(unknown); ++tries) {
    if (tries > 0 && tries < kMostTries) __nanosleep(kPauseNs);
    if (tries == kMostTries) wait_for_predecessor();
    any = unknown = false;
    for (uint32_t bin = threadIdx.x; bin < bins.num_bins(); bin += kThreads) {
      const BinDensity density = densities[bin];
      ranks[bin] = density == BinDensity::crowded ? 1 : 0;
      any = any || density == BinDensity::crowded;
      unknown = unknown || density == BinDensity::unknown;
    }
    __threadfence();  // with the one of the step before, before it tells
  }
  if (!__syncthreads_or(any)) return false;
  const uint32_t count = scan_block<kThreads>(ranks, bins.num_bins(), warps);
  share.bits = share_bits(bins, count), share.first = item & ((1u << share.bits) - 1);
  const uint32_t rank = item >> share.bits;
  if (rank >= count) return false;
  for (uint32_t bin = threadIdx.x; bin < bins.num_bins(); bin += kThreads) {
    const uint32_t next = bin + 1 < bins.num_bins() ? ranks[bin + 1] : count;
    if (ranks[bin] == rank && next > rank) found = bin;
  }
  __syncthreads();
  share.bin = found;
  return true;
}

/// Of all bins, or of those that the step before leaves, while it is still at others. That step tells fates; here the
/// last block then only waits for its end, so that whoever waits for this step has waited for both.
template <class Rule, class T, int N, bool kDealt>
__global__ void __launch_bounds__(kThreads, 2) add_bins(BinArgs bins, ValueArgs args) {
  extern __shared__ uint4 memory[];
  __shared__ uint32_t warps[32];
  let_successor_start();
  if (tells_fates()) return bins.few_points ? wait_for_predecessor() : tell_fates(bins);
  // Where bins outnumber blocks the step before is at them until its end.
  if (!bins.few_points || bins.num_bins() > blocks_for_bins()) wait_for_predecessor();
  for (uint32_t item = blockIdx.x;; item += blocks_for_bins()) {
    Share share{item, 0, 0};
    if (bins.few_points ? !find_share(bins, item, reinterpret_cast<uint32_t*>(memory), warps, share)
                        : item >= bins.num_bins())
      return;
    add_listed<Rule, T, N, kDealt>(bins, share, args, ListMemory(memory, bins), warps);
    __syncthreads();
  }
}

}  // namespace

void launch_voxel_values(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  if (problem.num_features == 0) return;
  if (bins.few_points && !launch_voxel_fetched(launch, problem, bins)) launch_voxel_groups(launch, problem, bins);
  with_values(problem, bins, [&](const ValueArgs& args, auto rule, auto type, auto pack) {
    using Rule = decltype(rule);
    using T = decltype(type);
    constexpr int kPack = decltype(pack)::value;
    const auto run = [&](auto* kernel) {
      const size_t shared = ListMemory::bytes(bins);
      allow_shared(launch, kernel, shared);
      launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "add_bins", bins, args);
    };
    if (bins.rows) return run(&add_bins<Rule, T, kPack, true>);
    run(&add_bins<Rule, T, kPack, false>);
  });
}

}  // namespace amdahl

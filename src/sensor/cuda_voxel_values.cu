// Second step of a voxelization with values: the points of a bin are listed by voxel in shared memory; then the voxel's
// values are read once, added up in registers and written once. No atomics on values, so a fixed-point sum costs as
// much as a float one.

#include "sensor/cuda_voxel_rules.cuh"
#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr int kLanesOfGroup = 8;
constexpr uint32_t kListed = 12288;   // points whose list fits into shared memory, 48 KiB
constexpr uint32_t kChained = 4096;   // points whose chains do; the same memory
constexpr uint32_t kLong = 32;        // points from which a warp adds up a voxel
constexpr uint32_t kVeryLong = 4096;  // and a block

/// The lists of one bin: the points of voxel v are order[begin(v), ends[v]).
struct Lists {
  uint32_t* ends;
  uint32_t* order;
  __device__ uint32_t begin(uint32_t offset) const { return ends[static_cast<int>(offset) - 1]; }  // ends[-1] is 0
};

/// Sorts the points of a bin by voxel.
__device__ Lists make_lists(const BinArgs& bins, uint32_t bin, uint32_t* ends, uint32_t* in_shared, uint32_t* warps,
                            uint32_t& place) {
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  constexpr uint32_t kOffset = (1u << kOffsetBits) - 1;
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int) { atomicAdd(&ends[entry & kOffset], 1u); });
  __syncthreads();
  const uint32_t total = scan_block<kThreads, 4>(ends, voxels, warps);
  if (threadIdx.x == 0 && total > kListed) place = atomicAdd(bins.cursor, total);
  __syncthreads();
  uint32_t* order = total > kListed ? bins.order + place : in_shared;
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int tile) {
    const auto point = static_cast<uint32_t>(tile) * bins.tile_points + (entry >> kOffsetBits);
    order[atomicAdd(&ends[entry & kOffset], 1u)] = point;
  });
  __syncthreads();
  return {ends, order};
}

/// Adds up voxels of more than kLong points, found in `longs`.
template <class Rule, class T, int N>
__device__ void add_long(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const Lists& lists,
                         const uint16_t* longs, uint32_t num_long, Sums<Rule, T, N>* of_warps) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t columns = args.columns;
  for (uint32_t i = warp; i < num_long; i += kThreads / 32) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin > kVeryLong) continue;
    for (uint32_t column = 0; column < columns; ++column) {
      Sums<Rule, T, N> sums(args);
#pragma unroll 4
      for (uint32_t at = begin + lane; at < end; at += 32) sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.join_warp();
      if (lane == 0) sums.write(args, voxel_of(bins, bin, longs[i]), column, end - begin);
    }
  }
  for (uint32_t i = 0; i < num_long; ++i) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin <= kVeryLong) continue;
    for (uint32_t column = 0; column < columns; ++column) {
      Sums<Rule, T, N> sums(args);
#pragma unroll 4
      for (uint32_t at = begin + threadIdx.x; at < end; at += kThreads)
        sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.join_warp();
      if (lane == 0) of_warps[warp] = sums;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int w = 1; w < kThreads / 32; ++w)
          for (int k = 0; k < N; ++k) Rule::join(sums.at[k], of_warps[w].at[k]);
        sums.write(args, voxel_of(bins, bin, longs[i]), column, end - begin);
      }
      __syncthreads();
    }
  }
}

/// Voxels of a bin by how they are added up: from the front those of few points, from the back those of more than
/// kLong.
struct Found {
  uint16_t* offsets;
  uint32_t num_short, num_long;
};

/// Lists the voxels of a bin that hold points.
__device__ void find_voxels(const BinArgs& bins, uint32_t bin, const Lists& lists, int32_t* counts, Found& found) {
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  const unsigned lanes_below = (1u << threadIdx.x % 32) - 1;
  for (uint32_t offset = threadIdx.x; offset < voxels; offset += kThreads) {  // whole warps: both are multiples of 32
    const uint32_t count = lists.ends[offset] - lists.begin(offset);
    if (counts) {
      const uint32_t voxel = voxel_of(bins, bin, offset);
      if (voxel < bins.num_voxels) counts[voxel] = static_cast<int32_t>(count);
    }
    const bool few = count > 0 && count <= kLong;
    const unsigned mask = __ballot_sync(~0u, few);
    uint32_t place = 0;
    if (threadIdx.x % 32 == 0 && mask != 0) place = atomicAdd(&found.num_short, static_cast<uint32_t>(__popc(mask)));
    place = __shfl_sync(~0u, place, 0) + __popc(mask & lanes_below);
    if (few) found.offsets[place] = static_cast<uint16_t>(offset);
    if (count > kLong) found.offsets[voxels - 1 - atomicAdd(&found.num_long, 1u)] = static_cast<uint16_t>(offset);
  }
}

/// Writes the rows of the empty voxels of a bin.
template <class Rule, class T, int N>
__device__ void write_empty(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const Lists& lists,
                            uint32_t first, uint32_t step, uint32_t column) {
  const Sums<Rule, T, N> none(args);
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
#pragma unroll 4
  for (uint32_t offset = first; offset < voxels; offset += step) {
    const uint32_t voxel = voxel_of(bins, bin, offset);
    if (lists.ends[offset] == lists.begin(offset) && voxel < bins.num_voxels) none.write(args, voxel, column, 0);
  }
}

/// Adds up the voxels of few points. A thread keeps its column of the features; the first points of several voxels are
/// read together.
template <class Rule, class T, int N>
__device__ void add_short(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const Lists& lists,
                          const Found& found, uint32_t first, uint32_t step, uint32_t column) {
  constexpr int kAhead = 4;
  for (uint32_t base = first; base < found.num_short; base += step * kAhead) {
    uint32_t offset[kAhead], begin[kAhead], end[kAhead];
    Pack<T, N> head[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (base + k * step >= found.num_short) continue;
      offset[k] = found.offsets[base + k * step];
      begin[k] = lists.begin(offset[k]), end[k] = lists.ends[offset[k]];
      head[k] = load<T, N>(args, lists.order[begin[k]], column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (base + k * step >= found.num_short) continue;
      Sums<Rule, T, N> sums(args);
      sums.add(args, head[k]);
#pragma unroll 2
      for (uint32_t at = begin[k] + 1; at < end[k]; ++at) sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.write(args, voxel_of(bins, bin, offset[k]), column, end[k] - begin[k]);
    }
  }
}

/// Bins of few points, most of whose voxels are empty: the points of a voxel are a chain. `heads` are 0, or 1 + the
/// place of the chain's last point, and `tails` are the places that end a chain: one a voxel.
struct Chains {
  uint32_t *heads, *points, *nexts;
  uint16_t *offsets, *tails;
  uint32_t num_points, num_tails;
};

/// The next place of a counter for each of the warp's active threads, with one atomic.
__device__ __forceinline__ uint32_t take_place(uint32_t& counter) {
  const unsigned active = __activemask(), lane = threadIdx.x % 32;
  const int leader = __ffs(static_cast<int>(active)) - 1;
  uint32_t first = 0;
  if (static_cast<int>(lane) == leader) first = atomicAdd(&counter, static_cast<uint32_t>(__popc(active)));
  return __shfl_sync(active, first, leader) + __popc(active & ((1u << lane) - 1));
}

/// Chains the points of a bin; false when there are too many of them, or of them in a chain: a thread walks it alone.
__device__ bool make_chains(const BinArgs& bins, uint32_t bin, Chains& chains) {
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int tile) {
    const uint32_t place = take_place(chains.num_points);
    if (place >= kChained) return;
    const uint32_t offset = entry & ((1u << kOffsetBits) - 1);
    chains.points[place] = static_cast<uint32_t>(tile) * bins.tile_points + (entry >> kOffsetBits);
    chains.offsets[place] = static_cast<uint16_t>(offset);
    const uint32_t next = atomicExch(&chains.heads[offset], place + 1);
    chains.nexts[place] = next;
    if (next == 0) chains.tails[take_place(chains.num_tails)] = static_cast<uint16_t>(place);
  });
  __syncthreads();
  return chains.num_points <= kChained && chains.num_points * 2 <= chains.num_tails * 3;
}

/// Writes rows of empty voxels over the whole bin.
template <class Rule, class T, int N>
__device__ void clear_bin(const BinArgs& bins, uint32_t bin, const ValueArgs& args) {
  const Sums<Rule, T, N> none(args);
  // The packs of a chunk's rows lie together; the block's threads take several chunks at once.
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels, row = args.columns * kChunkVoxels;
  const uint32_t at_once = max(1u, kThreads / row), chunk = row < kThreads ? threadIdx.x / row : 0;
  const uint32_t first = row < kThreads ? threadIdx.x % row : threadIdx.x;
  for (uint32_t i = first; i < row && chunk < at_once; i += kThreads)
#pragma unroll 4
    for (uint32_t slot = chunk * kChunkVoxels; slot < voxels; slot += at_once * kChunkVoxels) {
      const uint32_t voxel = voxel_of(bins, bin, slot);
      const int64_t at = static_cast<int64_t>(voxel) * args.columns + i;
      if (at < bins.num_voxels * args.columns) none.write_at(args, at, 0);
    }
  if (!args.counts) return;
  for (uint32_t offset = threadIdx.x; offset < voxels; offset += kThreads)
    if (const uint32_t voxel = voxel_of(bins, bin, offset); voxel < bins.num_voxels) args.counts[voxel] = 0;
}

/// Adds up the chains.
template <class Rule, class T, int N>
__device__ void add_chains(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const Chains& chains,
                           uint32_t first, uint32_t step, uint32_t column) {
  constexpr int kAhead = 4;
  for (uint32_t base = first; base < chains.num_tails; base += step * kAhead) {
    uint32_t offset[kAhead], next[kAhead];
    Pack<T, N> head[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (base + k * step >= chains.num_tails) continue;
      offset[k] = chains.offsets[chains.tails[base + k * step]];
      const uint32_t place = chains.heads[offset[k]] - 1;
      next[k] = chains.nexts[place];
      head[k] = load<T, N>(args, chains.points[place], column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (base + k * step >= chains.num_tails) continue;
      Sums<Rule, T, N> sums(args);
      sums.add(args, head[k]);
      uint32_t count = 1;
      for (uint32_t at = next[k]; at != 0; at = chains.nexts[at - 1], ++count)
        sums.add(args, load<T, N>(args, chains.points[at - 1], column));
      const uint32_t voxel = voxel_of(bins, bin, offset[k]);
      sums.write(args, voxel, column, count);
      if (column == 0 && args.counts) args.counts[voxel] = static_cast<int32_t>(count);
    }
  }
}

/// One bin whose points are listed by voxel.
template <class Rule, class T, int N>
__device__ void add_listed(const BinArgs& bins, uint32_t bin, const ValueArgs& args, uint32_t* ends, uint32_t first,
                           uint32_t step, uint32_t first_column) {
  __shared__ uint32_t warps[32], place;
  __shared__ Found found;
  __shared__ alignas(16) unsigned char of_warps[kThreads / 32 * sizeof(Sums<Rule, T, N>)];
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  uint32_t* order = ends + voxels;
  for (uint32_t i = threadIdx.x; i < voxels; i += kThreads) ends[i] = 0;
  if (threadIdx.x == 0) found = {reinterpret_cast<uint16_t*>(order + kListed), 0, 0};
  __syncthreads();
  const Lists lists = make_lists(bins, bin, ends, order, warps, place);
  find_voxels(bins, bin, lists, args.counts, found);
  __syncthreads();
  if (first < step)
    for (uint32_t column = first_column; column < args.columns; column += kThreads) {
      add_short<Rule, T, N>(bins, bin, args, lists, found, first, step, column);
      write_empty<Rule, T, N>(bins, bin, args, lists, first, step, column);
    }
  __syncthreads();
  if (found.num_long > 0)
    add_long<Rule, T, N>(bins, bin, args, lists, found.offsets + voxels - found.num_long, found.num_long,
                         reinterpret_cast<Sums<Rule, T, N>*>(of_warps));
}

template <class Rule, class T, int N, bool kSparse>
__global__ void __launch_bounds__(kThreads, 2) add_bins(BinArgs bins, ValueArgs args) {
  extern __shared__ uint4 memory[];
  __shared__ Chains chains;
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  auto* ends = reinterpret_cast<uint32_t*>(memory) + 4;  // ends[-1] is 0
  // Points with few features stand side by side.
  const uint32_t step = max(1u, kThreads / args.columns);
  const bool narrow = args.columns < kThreads;
  const uint32_t first = narrow ? threadIdx.x / args.columns : 0;
  const uint32_t first_column = narrow ? threadIdx.x % args.columns : threadIdx.x;
  cudaTriggerProgrammaticLaunchCompletion();
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += gridDim.x) {
    for (uint32_t i = threadIdx.x; i < (kSparse ? voxels / 4 + 1 : 1); i += kThreads)
      memory[i] = make_uint4(0, 0, 0, 0);
    if (kSparse && threadIdx.x == 0) {
      uint32_t* points = ends + voxels;
      auto* offsets = reinterpret_cast<uint16_t*>(points + 2 * kChained);
      chains = {ends, points, points + kChained, offsets, offsets + kChained, 0, 0};
    }
    __syncthreads();
    // The grid is nobody else's since the first step began; what the first step leaves is there when it has ended.
    if (kSparse) clear_bin<Rule, T, N>(bins, bin, args);
    if (bin == blockIdx.x) {
      cudaGridDependencySynchronize();
      add_fates(bins);
    }
    if (kSparse && make_chains(bins, bin, chains)) {
      if (first < step)
        for (uint32_t column = first_column; column < args.columns; column += kThreads)
          add_chains<Rule, T, N>(bins, bin, args, chains, first, step, column);
    } else {
      add_listed<Rule, T, N>(bins, bin, args, ends, first, step, first_column);
    }
    __syncthreads();
  }
}

template <class Rule, class T, int N>
void launch_rule(const SensorLaunch& launch, const BinArgs& bins, const ValueArgs& args) {
  const size_t voxels = size_t{bins.bin_chunks} * kChunkVoxels;
  const size_t shared = (voxels + 4 + kListed) * sizeof(uint32_t) + voxels * sizeof(uint16_t);
  const auto blocks = std::min<unsigned>(1u << bins.bin_bits, static_cast<unsigned>(launch.num_sms) * 2);
  const auto run = [&](auto* kernel) {
    allow_shared(launch, kernel, shared);
    launch_early(launch, blocks, kThreads, shared, kernel, "add_bins", bins, args);
  };
  // Chains are for bins with fewer points than half their voxels.
  const int64_t points = bins.num_tiles * bins.tile_points;
  if (points < bins.num_voxels / 2 && points < int64_t{kChained} << bins.bin_bits)
    return run(&add_bins<Rule, T, N, true>);
  run(&add_bins<Rule, T, N, false>);
}

template <class T, int N>
void launch_packed(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins,
                   const ValueArgs& args) {
  if (problem.options.mode == VoxelMode::max) {
    if (problem.partial) return launch_rule<PartialMax, T, N>(launch, bins, args);
    return launch_rule<Max, T, N>(launch, bins, args);
  }
  if (problem.options.deterministic) {
    if (problem.partial) return launch_rule<FixedSum, T, N>(launch, bins, args);
    return launch_rule<FixedMean, T, N>(launch, bins, args);
  }
  if (problem.partial) return launch_rule<FloatSum, T, N>(launch, bins, args);
  launch_rule<FloatMean, T, N>(launch, bins, args);
}

}  // namespace

void launch_voxel_values(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  if (problem.num_features == 0) return;
  const bool wide = problem.options.mode == VoxelMode::mean && problem.partial && problem.options.deterministic;
  const int64_t result_bytes = wide ? sizeof(int64_t) : sizeof(float);
  ValueArgs args{};
  args.features = problem.features;
  args.output = static_cast<char*>(problem.output) + bins.first_voxel * problem.num_features * result_bytes;
  args.counts = problem.counts ? problem.counts + bins.first_voxel : nullptr;
  args.scale = problem.scale;
  args.zero_floor = problem.options.zero_floor;
  with_type(problem.feature_type, [&](auto type) {
    using T = decltype(type);
    constexpr int64_t kPack = 4;
    const auto out = static_cast<int64_t>(reinterpret_cast<uintptr_t>(args.output));
    const auto in = static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.features));
    const bool packed = problem.num_features % kPack == 0 && out % (kPack * result_bytes) == 0 &&
                        in % (kPack * static_cast<int64_t>(sizeof(T))) == 0;
    args.columns = static_cast<uint32_t>(problem.num_features / (packed ? kPack : 1));
    if (packed)
      launch_packed<T, kPack>(launch, problem, bins, args);
    else
      launch_packed<T, 1>(launch, problem, bins, args);
  });
}

}  // namespace amdahl

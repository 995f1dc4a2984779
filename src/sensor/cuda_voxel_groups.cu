// Second step of a voxelization with values, for bins of few points: a warp builds a group of neighbouring voxels in
// shared memory and writes it as one piece. Every row of the grid is written once; rows cleared first and written again
// go to DRAM twice.
#include "sensor/cuda_voxel_rules.cuh"
#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr int kGroupBytes = 2048;  // of a warp's sums

/// Grids that do not fit are what the L2 should let go first.
template <class R, int N>
__device__ __forceinline__ void store_streaming(Pack<R, N>* at, const Pack<R, N>& value) {
  if constexpr (sizeof(value) % sizeof(uint4) == 0) {
#pragma unroll
    for (size_t i = 0; i < sizeof(value) / sizeof(uint4); ++i)
      __stcs(reinterpret_cast<uint4*>(at) + i, reinterpret_cast<const uint4*>(&value)[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) __stcs(&at->at[i], value.at[i]);
  }
}

/// How a block divides its bin: 2^group_bits voxels a group, whose rows have 2^column_bits places.
struct GroupShape {
  int group_bits, column_bits;
  uint32_t num_groups;     // 0 where rows are too long
  uint32_t most_of_group;  // points that a warp adds up
  __host__ __device__ uint32_t group_voxels() const { return 1u << group_bits; }
  /// Of the counters that become the groups' begins; the last one is the end.
  __host__ __device__ uint32_t num_begins() const { return num_groups / 4 * 4 + 4; }
};

/// For rows of `columns` packs of `pack_bytes` sums, of which every lane has one column.
GroupShape group_shape(uint32_t bin_chunks, uint32_t columns, size_t pack_bytes) {
  constexpr uint32_t kMostPoints = 256, kMostSteps = 32;  // steps: of a warp over a group's points
  GroupShape shape{};
  while (1u << shape.column_bits < columns) ++shape.column_bits;
  const size_t row_bytes = pack_bytes << shape.column_bits;
  if (columns > 32 || 2 * row_bytes > kGroupBytes) return shape;
  while (shape.group_voxels() < kChunkVoxels && (row_bytes << (shape.group_bits + 1)) <= kGroupBytes)
    ++shape.group_bits;
  shape.num_groups = bin_chunks * kChunkVoxels / shape.group_voxels();
  shape.most_of_group = std::min(kMostPoints, kMostSteps * (32u >> shape.column_bits));
  return shape;
}

/// Shared memory of the block: each warp's sums and how many points are in them, and the bin's points by group.
template <class Rule, class T, int N>
struct GroupMemory {
  static constexpr int kWarps = kThreads / 32, kPacks = kGroupBytes / static_cast<int>(sizeof(Sums<Rule, T, N>));
  unsigned char* sums;  // [warps, kGroupBytes]
  uint16_t* counts;     // [warps, kPacks]
  uint32_t* begins;     // [num_begins], after a 0
  uint32_t* tails;      // [num_begins], spilled points listed so far
  uint32_t* points;     // [kFewPoints]
  uint8_t* offsets;     // [kFewPoints], in the group

  __device__ GroupMemory(void* memory, const GroupShape& shape) {
    sums = static_cast<unsigned char*>(memory);
    counts = reinterpret_cast<uint16_t*>(sums + kWarps * kGroupBytes);
    begins = reinterpret_cast<uint32_t*>(counts + kWarps * kPacks) + 4;
    tails = begins + shape.num_begins();
    points = tails + shape.num_begins();
    offsets = reinterpret_cast<uint8_t*>(points + kFewPoints);
  }
  static size_t bytes(const GroupShape& shape) {
    return kWarps * (kGroupBytes + kPacks * sizeof(uint16_t)) +
           (4 + 2 * shape.num_begins() + kFewPoints) * sizeof(uint32_t) + kFewPoints;
  }
  __device__ void clear(const GroupShape& shape) const {
    for (uint32_t i = threadIdx.x; i < 4 + 2 * shape.num_begins(); i += kThreads) (begins - 4)[i] = 0;
    for (uint32_t i = threadIdx.x; i < kWarps * kPacks; i += kThreads) counts[i] = 0;
  }
  __device__ __forceinline__ void list(const BinArgs& bins, const GroupShape& shape, uint32_t at, uint32_t entry,
                                       int tile) const {
    points[at] = static_cast<uint32_t>(tile) * bins.tile_points + (entry >> kOffsetBits);
    offsets[at] = static_cast<uint8_t>(entry & (shape.group_voxels() - 1));
  }
  /// The groups' numbers of points become their begins; false where the memory cannot take them.
  __device__ bool scan(const GroupShape& shape, uint32_t* warps) const {
    return scan_block<kThreads, 4>(begins, shape.num_begins(), warps) <= kFewPoints;
  }
};

/// Lists the points of a bin by group: those of group g are [begins[g], begins[g + 1]). Null where there are too many.
template <bool kDealt, class Rule, class T, int N>
__device__ const uint32_t* list_groups(const BinArgs& bins, uint32_t bin, const GroupShape& shape,
                                       const GroupMemory<Rule, T, N>& memory, uint32_t* warps) {
  if (shape.num_groups == 0) return nullptr;
  const auto group_of = [&](uint32_t entry) { return (entry & ((1u << kOffsetBits) - 1)) >> shape.group_bits; };
  if constexpr (kDealt) {
    using Slots = DealtSlots<ValueRow, kThreads>;
    constexpr uint32_t kNone = ~0u;
    uint32_t entries[Slots::kOfThread], ranks[Slots::kOfThread];
#pragma unroll
    for (uint32_t& rank : ranks) rank = kNone;
    bool spilled = for_each_dealt<ValueRow, kThreads>(bins, bin, [&](uint32_t entry, int, int at) {
      entries[at] = entry, ranks[at] = atomicAdd(&memory.begins[group_of(entry)], 1u);
    });
    spilled = __syncthreads_or(spilled);
    if (spilled) {  // they come after those in rows, whose ranks are known
      for_each_spilled<ValueRow, kThreads>(
          bins, bin, [&](uint32_t entry, int) { atomicAdd(&memory.begins[group_of(entry)], 1u); });
      __syncthreads();
    }
    if (!memory.scan(shape, warps)) return nullptr;
    if (spilled)
      for_each_spilled<ValueRow, kThreads>(bins, bin, [&](uint32_t entry, int tile) {
        const uint32_t group = group_of(entry), from_end = 1 + atomicAdd(&memory.tails[group], 1u);
        memory.list(bins, shape, memory.begins[group + 1] - from_end, entry, tile);
      });
#pragma unroll
    for (int at = 0; at < Slots::kOfThread; ++at)
      if (ranks[at] != kNone)
        memory.list(bins, shape, memory.begins[group_of(entries[at])] + ranks[at], entries[at], Slots::tile(at));
    __syncthreads();
    return memory.begins;
  } else {
    for_each_in_segments(bins, bin, [&](uint32_t entry, int) { atomicAdd(&memory.begins[group_of(entry)], 1u); });
    __syncthreads();
    if (!memory.scan(shape, warps)) return nullptr;
    for_each_in_segments(bins, bin, [&](uint32_t entry, int tile) {
      memory.list(bins, shape, atomicAdd(&memory.begins[group_of(entry)], 1u), entry, tile);
    });
    __syncthreads();
    return memory.begins - 1;  // what were begins are ends now
  }
}

/// Groups of a bin with more points than a warp should add up: fewer than there are points for.
struct Crowded {
  uint32_t num_groups;
  uint32_t groups[kFewPoints / 32];
};

/// A warp's work on groups: lanes stand side by side over the columns of several points.
template <class Rule, class T, int N>
class GroupWriter {
 public:
  using Memory = GroupMemory<Rule, T, N>;
  using Sum = Sums<Rule, T, N>;

  __device__ GroupWriter(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const GroupShape& shape,
                         const Memory& memory, const uint32_t* begins)
      : bins_(bins), args_(args), shape_(shape), memory_(memory), begins_(begins), bin_(bin) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    lane_ = lane, column_ = lane & ((1 << shape.column_bits) - 1), first_ = lane >> shape.column_bits;
    at_once_ = 32 >> shape.column_bits;
    sums_ = reinterpret_cast<Sum*>(memory.sums + warp * kGroupBytes);
    counts_ = memory.counts + warp * Memory::kPacks;
  }

  /// Leaves groups of very many points to write_crowded.
  __device__ void write_all(Crowded& crowded) {
    uint32_t group = threadIdx.x / 32;
    Points points = points_of(group);
    for (; group < shape_.num_groups; group += kThreads / 32) {
      const Points next = points_of(group + kThreads / 32);  // read while these are added up
      if (points.end - points.base > shape_.most_of_group) {
        if (lane_ == 0) crowded.groups[atomicAdd(&crowded.num_groups, 1u)] = group;
      } else {
        if (points.base < points.end) finish(points, add(points, at_once_));
        write(group);
      }
      points = next;
    }
  }
  /// Groups that the whole block adds up, a sum for each warp.
  __device__ void write_crowded(const Crowded& crowded) {
    constexpr int kWarps = Memory::kWarps;
    for (uint32_t i = 0; i < crowded.num_groups; ++i) {
      const uint32_t group = crowded.groups[i];
      Points points;
      points.base = begins_[group] + threadIdx.x / 32 * at_once_, points.end = begins_[group + 1];
      read(points, points.base + first_);
      add(points, kWarps * at_once_);
      __syncthreads();
      auto* sums = reinterpret_cast<Sum*>(memory_.sums);
      for (uint32_t pack = threadIdx.x; pack < 1u << (shape_.group_bits + shape_.column_bits); pack += kThreads) {
        Sum all(args_);
        uint32_t count = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
          uint16_t& of_warp = memory_.counts[warp * Memory::kPacks + pack];
          if (of_warp == 0) continue;
          all.join(sums[warp * (kGroupBytes / sizeof(Sum)) + pack]);
          count += of_warp, of_warp = 0;
        }
        if (count > 0) reinterpret_cast<typename Sum::Results&>(sums[pack]) = all.result(args_, count);
        memory_.counts[pack] = static_cast<uint16_t>(count);
      }
      __syncthreads();
      if (threadIdx.x < 32) write(group);
      __syncthreads();
    }
  }

 private:
  /// Points of a group, of which a lane adds every at_once_-th from its own on; the first value is read ahead.
  struct Points {
    uint32_t base, end;
    Pack<T, N> value;
    uint32_t offset;
  };

  __device__ __forceinline__ bool has(uint32_t at, uint32_t end) const {
    return at < end && column_ < static_cast<int>(args_.columns);
  }
  __device__ __forceinline__ void read(Points& points, uint32_t at) const {
    if (!has(at, points.end)) return;
    points.value = load<T, N>(args_, memory_.points[at], column_), points.offset = memory_.offsets[at];
  }
  __device__ __forceinline__ Points points_of(uint32_t group) const {
    Points points;
    points.base = points.end = 0;
    if (group < shape_.num_groups) points.base = begins_[group], points.end = begins_[group + 1];
    read(points, points.base + first_);
    return points;
  }

  /// Adds this warp's points, every `step`-th lot of them; points of one voxel take turns. Tells by bits at which lots
  /// this lane was the first for its place.
  __device__ uint32_t add(Points points, uint32_t step) {
    uint32_t came_first = 0, lot = 1;
    for (; points.base < points.end; points.base += step, lot *= 2) {
      const bool mine = has(points.base + first_, points.end);
      const uint32_t place = mine ? points.offset << shape_.column_bits | column_ : ~lane_;
      const int turn = __popc(__match_any_sync(~0u, place) & ((1u << lane_) - 1));
      for (int i = 0; __any_sync(~0u, mine && turn >= i); ++i) {
        if (mine && turn == i) {
          const uint32_t count = counts_[place];
          Sum sums(args_);
          if (count == 0)
            came_first |= lot;
          else
            sums = sums_[place];
          sums.add(args_, points.value);
          sums_[place] = sums, counts_[place] = static_cast<uint16_t>(count + 1);
        }
        __syncwarp();
      }
      read(points, points.base + step + first_);
    }
    return came_first;
  }
  /// The lane that came first turns sums into the result, in place.
  __device__ void finish(const Points& points, uint32_t came_first) {
    for (uint32_t at = points.base + first_; came_first != 0; at += at_once_, came_first /= 2) {
      if (came_first % 2 == 0) continue;
      const uint32_t place = uint32_t{memory_.offsets[at]} << shape_.column_bits | column_;
      const auto result = sums_[place].result(args_, counts_[place]);
      reinterpret_cast<typename Sum::Results&>(sums_[place]) = result;
    }
    __syncwarp();
  }

  __device__ void write(uint32_t group) {
    using Results = typename Sum::Results;
    const Results none = Sum(args_).result(args_, 0);
    const uint32_t first = voxel_of(bins_, bin_, group << shape_.group_bits), columns = args_.columns;
    const uint32_t packs = 1u << (shape_.group_bits + shape_.column_bits);
    auto* out = static_cast<Results*>(args_.output) + static_cast<int64_t>(first) * columns;
    const bool whole = columns == 1u << shape_.column_bits && first + shape_.group_voxels() <= bins_.num_voxels;
#pragma unroll 4
    for (uint32_t i = lane_; i < packs; i += 32) {
      const uint32_t count = counts_[i];
      const Results result = count > 0 ? reinterpret_cast<const Results&>(sums_[i]) : none;
      if (count > 0) counts_[i] = 0;
      const uint32_t row = i >> shape_.column_bits, column = i & ((1u << shape_.column_bits) - 1);
      if (!whole && (column >= columns || first + row >= bins_.num_voxels)) continue;
      store_streaming(out + (whole ? i : row * columns + column), result);
      if (args_.counts && column == 0) args_.counts[first + row] = static_cast<int32_t>(count);
    }
    __syncwarp();
  }

  const BinArgs& bins_;
  const ValueArgs& args_;
  const GroupShape& shape_;
  const Memory& memory_;
  const uint32_t* begins_;
  uint32_t bin_, lane_;
  int first_, column_, at_once_;
  Sum* sums_;
  uint16_t* counts_;
};

template <class Rule, class T, int N, bool kDealt>
__global__ void __launch_bounds__(kThreads, 2) add_groups(BinArgs bins, ValueArgs args, GroupShape shape) {
  extern __shared__ uint4 memory[];
  __shared__ uint32_t warps[32];
  __shared__ Crowded crowded;
  const GroupMemory<Rule, T, N> groups(memory, shape);
  cudaTriggerProgrammaticLaunchCompletion();
  if (tells_fates()) return tell_fates(bins);
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += gridDim.x - 1) {
    groups.clear(shape);
    if (threadIdx.x == 0) crowded.num_groups = 0;
    __syncthreads();
    if (bin == blockIdx.x) cudaGridDependencySynchronize();
    const uint32_t* begins = list_groups<kDealt>(bins, bin, shape, groups, warps);
    if (threadIdx.x == 0) bins.crowded[bin] = begins == nullptr;
    if (begins) {
      GroupWriter<Rule, T, N> writer(bins, bin, args, shape, groups, begins);
      writer.write_all(crowded);
      __syncthreads();
      writer.write_crowded(crowded);
    }
    __syncthreads();
  }
}

}  // namespace

void launch_voxel_groups(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  with_values(problem, bins, [&](const ValueArgs& args, auto rule, auto type, auto pack) {
    using Rule = decltype(rule);
    using T = decltype(type);
    constexpr int kPack = decltype(pack)::value;
    const GroupShape shape = group_shape(bins.bin_chunks, args.columns, sizeof(Sums<Rule, T, kPack>));
    const size_t shared = GroupMemory<Rule, T, kPack>::bytes(shape);
    const auto run = [&](auto* kernel) {
      allow_shared(launch, kernel, shared);
      launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "add_groups", bins, args, shape);
    };
    if (bins.rows) return run(&add_groups<Rule, T, kPack, true>);
    run(&add_groups<Rule, T, kPack, false>);
  });
}

}  // namespace amdahl

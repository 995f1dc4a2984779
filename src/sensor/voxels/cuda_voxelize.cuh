// What the two steps of a voxelization share on the device.
#pragma once

#include "sensor/cuda_launch.cuh"
#include "sensor/voxels/voxel_plan.h"
#include "sensor/voxels/voxel_quotient.h"

namespace amdahl::sensor_cuda {

/// How the points of a cloud divide: by a reciprocal in two parts, in grids where that is as good (voxel_quotient.h),
/// of sizes of at most 22 bits and voxels of 31; by the division itself; or by the original's approximate one.
enum class Quotient { reciprocal, exact, approximate };

/// The grid as kernels see it.
struct GridArgs {
  float minimum[3];
  float edge;
  Reciprocal inverse;  // of the edge
  int size[3];
  int64_t stride[3];
  int64_t first;  // voxel from which on indices are counted
  bool clamp;
  Quotient quotient;
};

/// What the step of few points has found out about a bin: whether it has done it, or left it as having too many points.
enum class BinDensity : uint8_t { unknown, few, crowded };

/// Bins of one slab, and the sorted points.
struct BinArgs {
  int64_t first_voxel, num_voxels;  // of the slab
  int bin_bits;
  uint32_t bin_chunks;
  int tile_points;
  int64_t num_tiles;              // of each rank, where those of several are counted: room for them
  int num_ranks;                  // 1 but for counts of several parts
  const unsigned* tiles_of_rank;  // null where it is num_tiles
  bool points_go_first;           // from the L2: what is sorted of them stays there if they do not
  bool few_points;
  void* rows;         // of CountRow or ValueRow, see row_of; null where tiles are not dealt
  void* second_rows;  // alike, of kSecondBytes: what does not fit into rows
  int row_pitch;
  BinDensity* densities;  // [bins], where bins have few points
  CrowdedBins* crowded;   // where counts are in halves of words
  void* entries;          // [tiles, tile_points] of the rows' slots
  uint32_t* table;        // [tiles, bins], each bin's segment, see Segment; of dealt tiles what rows cannot hold
  uint32_t* order;        // room for lists that do not fit into shared memory
  uint32_t* cursor;       // of it
  VoxelizeCounts* fates;  // of each block's points
  int num_fates;
  VoxelizeCounts* stats;  // their sum; null where nobody asks
  __host__ __device__ uint32_t num_bins() const { return 1u << bin_bits; }
  __host__ __device__ uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
  /// Point of an entry of a tile, which is dealt or sorted.
  template <bool kDealt>
  __device__ uint32_t point_of(uint32_t entry, int tile) const {
    const uint32_t at = entry >> kOffsetBits;
    if (kDealt) return dealt_point(static_cast<uint32_t>(tile), static_cast<uint32_t>(num_tiles), at);
    return static_cast<uint32_t>(tile) * tile_points + at;
  }
  /// Which row a tile has for a bin. Those for two neighbouring bins lie side by side: a tile then writes whole lines
  /// of memory. The same bin's of the next tile is kRowsTogether further.
  static constexpr uint32_t kRowsTogether = 2;
  __device__ uint32_t row_of(uint32_t bin, uint32_t tile) const {
    return (bin / kRowsTogether * row_pitch + tile) * kRowsTogether + bin % kRowsTogether;
  }
  /// A tile's sorted entries.
  template <class Row>
  __device__ typename Row::Slot* sorted(int64_t tile) const {
    return static_cast<typename Row::Slot*>(entries) + tile * tile_points;
  }
  template <class Row>
  __device__ typename Row::Slot* second_row(uint32_t bin, uint32_t tile) const {
    return reinterpret_cast<typename Row::Slot*>(static_cast<char*>(second_rows) +
                                                 row_of(bin, tile) * Row::kSecondBytes);
  }
};

/// The voxel of an entry, in its bin.
__device__ __forceinline__ uint32_t offset_of(uint32_t entry) { return entry & ((1u << kOffsetBits) - 1); }

/// Slab-local voxel of an offset in a bin. Slabs have fewer than 2^31 voxels.
__device__ __forceinline__ uint32_t voxel_of(const BinArgs& bins, uint32_t bin, uint32_t offset) {
  return voxel_at({bin, offset}, bins.bin_bits);
}

/// Blocks of a second step: for the bins, and the last one to tell what became of the points.
inline unsigned second_step_blocks(const SensorLaunch& launch, const BinArgs& bins) {
  return std::min<unsigned>(bins.num_bins(), static_cast<unsigned>(launch.num_sms) * 2) + 1;
}
__device__ __forceinline__ uint32_t blocks_for_bins() { return gridDim.x - 1; }
__device__ __forceinline__ bool tells_fates() { return blockIdx.x == blocks_for_bins(); }
__device__ inline void tell_fates(const BinArgs& bins) {
  wait_for_predecessor();
  if (!bins.stats || threadIdx.x >= 32) return;
  unsigned nan = 0, outside = 0;
  for (int i = static_cast<int>(threadIdx.x); i < bins.num_fates; i += 32)
    nan += static_cast<unsigned>(bins.fates[i].num_nan), outside += static_cast<unsigned>(bins.fates[i].num_outside);
  nan = __reduce_add_sync(~0u, nan), outside = __reduce_add_sync(~0u, outside);
  if (threadIdx.x == 0) *bins.stats = {nan, outside};
}

/// How segments are read: each by kLanes lanes, of which each reads kLoads entries at once, of kAhead segments
/// together.
template <int kLanesOfSegment, int kLoadsOfLane, int kSegments>
struct Reads {
  static constexpr int kLanes = kLanesOfSegment, kLoads = kLoadsOfLane, kAhead = kSegments;
};

/// Where a bin's entries in a tile begin and end. In a table they are 16 bits each of a word.
struct Segment {
  int begin, end;
  __device__ static Segment of(uint32_t word) {
    return {static_cast<int>(word & 0xffff), static_cast<int>(word >> 16)};
  }
  __device__ static uint32_t word(uint32_t begin, uint32_t end) { return begin | end << 16; }
};
static_assert(kMaxTilePoints <= 0xffff);

/// A bin's segments, from one tile on, as the first step leaves them.
struct SegmentTable {
  const uint32_t* first;
  uint32_t row;
  __device__ SegmentTable(const BinArgs& bins, uint32_t bin) : first(bins.table + bin), row(bins.num_bins()) {}
  __device__ __forceinline__ void skip(int tiles) { first += static_cast<int64_t>(tiles) * row; }
  __device__ __forceinline__ Segment operator[](int64_t tile) const { return Segment::of(first[tile * row]); }
};

/// Calls visit(entry, tile) for every entry in these segments of `num_tiles` tiles, of which the first is `first_tile`.
template <class Row, class Reads, int kThreads, class Segments, class Visit>
__device__ __forceinline__ void for_each_in_segments(const BinArgs& bins, int64_t first_tile, int num_tiles,
                                                     const Segments& segments, const Visit& visit) {
  constexpr int kLanes = Reads::kLanes, kLoads = Reads::kLoads, kAhead = Reads::kAhead, kGroups = kThreads / kLanes;
  const int lane = threadIdx.x % kLanes;
  for (int first = static_cast<int>(threadIdx.x) / kLanes; first < num_tiles; first += kGroups * kAhead) {
    int begin[kAhead], end[kAhead];
    Segments from_first = segments;
    from_first.skip(first);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      begin[k] = end[k] = 0;
      if (first + k * kGroups >= num_tiles) continue;
      const Segment segment = from_first[k * kGroups];
      begin[k] = segment.begin + lane, end[k] = segment.end;
    }
    const auto entries_of = [&](int k) { return bins.sorted<Row>(first_tile + first + k * kGroups); };
    typename Row::Slot entry[kAhead][kLoads];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (begin[k] + i * kLanes < end[k]) entry[k][i] = entries_of(k)[begin[k] + i * kLanes];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (begin[k] + i * kLanes < end[k]) visit(entry[k][i], first + k * kGroups);
      for (int at = begin[k] + kLoads * kLanes; at < end[k]; at += kLanes)
        visit(entries_of(k)[at], first + k * kGroups);
    }
  }
}
/// The same for every entry of a bin of tiles that are not dealt.
template <class Row, class Reads, int kThreads, class Visit>
__device__ __forceinline__ void for_each_in_segments(const BinArgs& bins, uint32_t bin, const Visit& visit) {
  for_each_in_segments<Row, Reads, kThreads>(bins, 0, static_cast<int>(bins.num_tiles), SegmentTable(bins, bin), visit);
}

/// How the slots of a bin's rows divide among a block's threads.
template <class Row, int kThreads>
struct DealtSlots {
  static constexpr int kRowsAtOnce = kThreads / Row::kLanes;
  static constexpr int kRowsOfThread = (Row::kMaxTiles + kRowsAtOnce - 1) / kRowsAtOnce;
  /// Slots of its rows, and then one of each second row.
  static constexpr int kOfFirst = kRowsOfThread * Row::kSlotsOfLane, kOfThread = kOfFirst + kRowsOfThread;
  __device__ static int tile(int at) {
    const int row = at < kOfFirst ? at / Row::kSlotsOfLane : at - kOfFirst;
    return row * kRowsAtOnce + static_cast<int>(threadIdx.x) / Row::kLanes;
  }
  /// Longest rows of which for_each_dealt visits all.
  static constexpr int kMostVisited = Row::kSlots + Row::kLanes;
};

/// Calls visit(there, entry, tile, at) for the slots of a bin's rows, of which not all have an entry there: a branch
/// around the visit may cost more than it does. `at` is known when compiled, and another for each of a thread's, but
/// for those in second rows that have more than one for a lane. Returns the length of the longest row that this thread
/// has seen. An entry of a CountRow is an offset alone. Calls wait() before it reads, when it knows where, and
/// begin_row(length) before it visits those of a row, in all lanes of it.
template <class Row, int kThreads, class Wait, class BeginRow, class Visit>
__device__ __forceinline__ int for_each_dealt(const BinArgs& bins, uint32_t bin, const Wait& wait,
                                              const BeginRow& begin_row, const Visit& visit) {
  using Slots = DealtSlots<Row, kThreads>;
  constexpr int kOfLane = Row::kSlotsOfLane;
  const int lane = threadIdx.x % Row::kLanes;
  uint32_t first = bins.row_of(bin, Slots::tile(0)) * Row::kLanes + lane;
  int num_tiles = static_cast<int>(bins.num_tiles);
  asm volatile("" : "+r"(first), "+r"(num_tiles));
  wait();
  const auto* rows = static_cast<const uint4*>(bins.rows);
  Pack<typename Row::Slot, kOfLane> parts[Slots::kRowsOfThread];
#pragma unroll
  for (int k = 0; k < Slots::kRowsOfThread; ++k)
    reinterpret_cast<uint4&>(parts[k]) =
        Slots::tile(k * kOfLane) < num_tiles
            ? rows[first + k * Slots::kRowsAtOnce * BinArgs::kRowsTogether * Row::kLanes]
            : make_uint4(0, 0, 0, 0);
  int longest = 0;
#pragma unroll
  for (int k = 0; k < Slots::kRowsOfThread; ++k) {
    const auto header = static_cast<int>(parts[k].at[0]);
    const int count = __shfl_sync(~0u, header, static_cast<int>(threadIdx.x) % 32 - lane);
    const int tile = Slots::tile(k * kOfLane);
    longest = max(longest, count);
    begin_row(count);
    const int end = count + Row::kHeader, left = end - Row::slot_of(lane, 0);
    const int last = Row::kTakeTurns ? __reduce_max_sync(~0u, end) : 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      if (Row::kTakeTurns && i > kOfLane / 2 && Row::slot_of(0, i) >= last) break;
      visit(Row::slot_of(0, i) < left && (i >= Row::kHeader || lane > 0), parts[k].at[i], tile, k * kOfLane + i);
    }
    if (Row::kSlots + lane < count) visit(true, bins.second_row<Row>(bin, tile)[lane], tile, Slots::kOfFirst + k);
  }
  return longest;
}

/// Calls visit(entry, tile) for the entries that for_each_dealt leaves.
template <class Row, int kThreads, class Visit>
__device__ __forceinline__ void for_each_spilled(const BinArgs& bins, uint32_t bin, const Visit& visit) {
  constexpr int kLanes = 8;
  const int lane = threadIdx.x % kLanes;
  const auto* rows = static_cast<const char*>(bins.rows);
  for (int tile = threadIdx.x / kLanes; tile < bins.num_tiles; tile += kThreads / kLanes) {
    const int in_second =
        *reinterpret_cast<const typename Row::Slot*>(rows + bins.row_of(bin, tile) * Row::kBytes) - Row::kSlots;
    const auto* second = bins.second_row<Row>(bin, tile);
    for (int i = lane + Row::kLanes; i < min(in_second, Row::kSecondSlots); i += kLanes) visit(second[i], tile);
    const int beyond = in_second - Row::kSecondSlots;
    if (beyond <= 0) continue;
    const auto* entries = bins.sorted<Row>(tile) + SegmentTable(bins, bin)[tile].begin;
    for (int i = lane; i < beyond; i += kLanes) visit(entries[i], tile);
  }
}

/// Calls visit(there, entry, tile) for every entry of a bin, and more that are not there; all threads have done so when
/// it returns. `kDealt`: whether its tiles are dealt. Calls wait() before it reads.
template <bool kDealt, class Row, class Reads, int kThreads, class Wait, class Visit>
__device__ __forceinline__ void for_each_entry(const BinArgs& bins, uint32_t bin, const Wait& wait,
                                               const Visit& visit) {
  if constexpr (kDealt) {
    const int longest = for_each_dealt<Row, kThreads>(
        bins, bin, wait, [](int) {}, [&](bool there, uint32_t entry, int tile, int) { visit(there, entry, tile); });
    if (!__syncthreads_or(longest > DealtSlots<Row, kThreads>::kMostVisited)) return;
    for_each_spilled<Row, kThreads>(bins, bin, [&](uint32_t entry, int tile) { visit(true, entry, tile); });
  } else {
    wait();
    for_each_in_segments<Row, Reads, kThreads>(bins, bin, [&](uint32_t entry, int tile) { visit(true, entry, tile); });
  }
  __syncthreads();
}

/// Inclusive sums over a warp.
__device__ __forceinline__ uint32_t scan_warp(uint32_t value) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const uint32_t below = __shfl_up_sync(~0u, value, d);
    if (threadIdx.x % 32 >= d) value += below;
  }
  return value;
}

/// Exclusive sums of data[0, count) over the block, in place; returns the total. `count` is a multiple of 4, data is
/// aligned to 16 bytes, and `warps` has 32 words.
template <int kThreads>
__device__ uint32_t scan_block(uint32_t* data, uint32_t count, uint32_t* warps) {
  constexpr int kWarps = kThreads / 32;
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, quads = count / 4;
  const uint32_t strips = (quads + kWarps * 32 - 1) / (kWarps * 32);  // of 32 quads, for each warp
  auto* four = reinterpret_cast<uint4*>(data);
  // A warp's first; those from `quads` on have nothing to add up. The same for all lanes, which the compiler is to
  // know.
  const uint32_t first = __shfl_sync(~0u, warp * strips * 32, 0);
  const uint32_t last = min(first + strips * 32, quads);
  uint32_t carry = 0;
#pragma unroll 1
  for (uint32_t base = first; base < last; base += 32) {
    const uint32_t quad = base + lane;
    const uint4 v = quad < quads ? four[quad] : make_uint4(0, 0, 0, 0);
    const uint32_t sum = v.x + v.y + v.z + v.w, through = carry + scan_warp(sum), before = through - sum;
    if (quad < quads) four[quad] = make_uint4(before, before + v.x, before + v.x + v.y, before + v.x + v.y + v.z);
    carry = __shfl_sync(~0u, through, 31);
  }
  if (lane == 0) warps[warp] = carry;
  __syncthreads();
  const uint32_t all = scan_warp(lane < kWarps ? warps[lane] : 0);
  const uint32_t before = warp == 0 ? 0 : __shfl_sync(~0u, all, warp - 1);
#pragma unroll 1
  for (uint32_t quad = first + lane; quad < last; quad += 32) {
    const uint4 v = four[quad];
    four[quad] = make_uint4(v.x + before, v.y + before, v.z + before, v.w + before);
  }
  __syncthreads();
  return __shfl_sync(~0u, all, 31);
}

/// The same by the first warp. Waits for all threads after.
__device__ __forceinline__ void scan_by_warp(uint32_t* data, uint32_t count) {
  if (threadIdx.x < 32) {
    const uint32_t quads = count / 4, of_lane = (quads + 31) / 32;
    const uint32_t first = min(threadIdx.x * of_lane, quads), last = min(first + of_lane, quads);
    auto* four = reinterpret_cast<uint4*>(data);
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t quad = first; quad < last; ++quad) {
      const uint4 v = four[quad];
      sum += v.x + v.y + v.z + v.w;
    }
    uint32_t before = scan_warp(sum) - sum;
#pragma unroll 1
    for (uint32_t quad = first; quad < last; ++quad) {
      const uint4 v = four[quad];
      const uint32_t y = before + v.x, z = y + v.y, w = z + v.z;
      four[quad] = make_uint4(before, y, z, w);
      before = w + v.w;
    }
  }
  __syncthreads();
}

}  // namespace amdahl::sensor_cuda

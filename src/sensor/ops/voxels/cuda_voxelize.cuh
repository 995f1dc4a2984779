// Device code shared by both steps of a voxelization: bins, sorted segments of entries, prefix sums.
#pragma once

#include "sensor/ops/cuda_launch.cuh"
#include "sensor/ops/voxels/voxel_plan.h"

namespace amdahl::sensor_cuda {

/// The bins of a slab and the sorted points.
struct BinArgs {
  int64_t first_voxel, num_voxels;  // of the slab
  int bin_bits;
  uint32_t bin_chunks;
  int tile_points;
  int64_t num_tiles;              // of a rank: with several ranks the capacity
  bool interleaved;               // tiles consist of runs from all over the cloud
  int num_ranks;                  // more than 1 if ranks divide the bins
  const unsigned* tiles_of_rank;  // null: num_tiles
  uint4* buckets;                 // see bucket_of
  uint4* overflow;                // overflow slots of each bucket
  int bucket_pitch;
  OverfullBins* overfull;  // overfull bins
  void* entries;           // [tiles, tile_points] of 16 or 32 bits
  uint32_t* table;         // [tiles, bins] Segment; with buckets: of the overflow lists
  uint32_t* order;         // memory of lists that do not fit into shared memory
  uint32_t* cursor;        // allocated elements of `order`
  VoxelizeCounts* drops;   // [num_drops], one per block of the first step
  int num_drops;
  VoxelizeCounts* stats;  // their sum; may be null
  __host__ __device__ uint32_t num_bins() const { return 1u << bin_bits; }
  __host__ __device__ uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
  /// Point `at` of a tile; may be past the end of the cloud.
  __device__ __forceinline__ int64_t point_at(int64_t tile, uint32_t at) const {
    if (interleaved) return interleaved_point(static_cast<uint32_t>(tile), static_cast<uint32_t>(num_tiles), at);
    return tile * tile_points + at;
  }
  /// Point of a sorted 32-bit entry. Clouds with values have fewer than 2^32 points.
  __device__ __forceinline__ uint32_t point_of(uint32_t entry, int tile) const {
    const uint32_t at = entry >> kOffsetBits, tile_of = static_cast<uint32_t>(tile);
    return interleaved ? interleaved_point(tile_of, static_cast<uint32_t>(num_tiles), at) : tile_of * tile_points + at;
  }
  __device__ uint32_t bucket_of(uint32_t bin, uint32_t tile) const { return bin * bucket_pitch + tile; }
  /// A bucket's overflow slots.
  __device__ uint4* overflow_of(uint32_t bucket) const {
    return overflow + bucket * (PointBucket::kOverflowBytes / sizeof(uint4));
  }
  /// A tile's sorted entries.
  template <class Entry>
  __device__ Entry* sorted(int64_t tile) const {
    return static_cast<Entry*>(entries) + tile * tile_points;
  }
};

/// Offset of an entry's voxel in its bin.
__device__ __forceinline__ uint32_t offset_of(uint32_t entry) { return entry & ((1u << kOffsetBits) - 1); }

/// Voxel of an offset in a bin, relative to the slab. Slabs have fewer than 2^31 voxels.
__device__ __forceinline__ uint32_t voxel_of(const BinArgs& bins, uint32_t bin, uint32_t offset) {
  return voxel_at({bin, offset}, bins.bin_bits);
}

/// Blocks of a second step with two blocks per SM.
inline unsigned second_step_blocks(const SensorLaunch& launch, const BinArgs& bins) {
  return std::min<unsigned>(bins.num_bins(), static_cast<unsigned>(launch.num_sms) * 2);
}

/// Range of a bin's entries in a tile. Tables store both ends in one word, 16 bits each.
struct Segment {
  int begin, end;
  __device__ static Segment of(uint32_t word) {
    return {static_cast<int>(word & 0xffff), static_cast<int>(word >> 16)};
  }
  __device__ static uint32_t word(uint32_t begin, uint32_t end) { return begin | end << 16; }
};
static_assert(kMaxTilePoints <= 0xffff);

/// The segments of a bin in the table that the first step writes.
struct SegmentTable {
  const uint32_t* first;
  uint32_t num_bins;
  __device__ SegmentTable(const BinArgs& bins, uint32_t bin) : first(bins.table + bin), num_bins(bins.num_bins()) {}
  __device__ __forceinline__ uint32_t word(int64_t tile) const { return first[tile * num_bins]; }
  __device__ __forceinline__ Segment operator[](int64_t tile) const { return Segment::of(word(tile)); }
};

/// How segments are read: kLanes lanes read a segment, kLoads entries per lane at once, for kAhead segments together.
template <int kLanesOfSegment, int kLoadsOfLane, int kSegments>
struct Reads {
  static constexpr int kLanes = kLanesOfSegment, kLoads = kLoadsOfLane, kAhead = kSegments;
};

/// Calls visit(entry, tile, index in the tile) for every entry of the segments of `num_tiles` tiles from `first_tile`
/// on; `tile` is relative to `first_tile`.
template <class Entry, class Reads, int kThreads, class Segments, class Visit>
__device__ __forceinline__ void for_each_in_segments(const BinArgs& bins, int64_t first_tile, int num_tiles,
                                                     const Segments& segments, const Visit& visit) {
  constexpr int kLanes = Reads::kLanes, kLoads = Reads::kLoads, kAhead = Reads::kAhead, kGroups = kThreads / kLanes;
  const int lane = threadIdx.x % kLanes;
  for (int first = static_cast<int>(threadIdx.x) / kLanes; first < num_tiles; first += kGroups * kAhead) {
    int begin[kAhead], end[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      begin[k] = end[k] = 0;
      if (first + k * kGroups >= num_tiles) continue;
      const Segment segment = segments[first + k * kGroups];
      begin[k] = segment.begin + lane, end[k] = segment.end;
    }
    const auto entries_of = [&](int k) { return bins.sorted<Entry>(first_tile + first + k * kGroups); };
    Entry entry[kAhead][kLoads];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (begin[k] + i * kLanes < end[k]) entry[k][i] = entries_of(k)[begin[k] + i * kLanes];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        if (begin[k] + i * kLanes < end[k]) visit(entry[k][i], first + k * kGroups, begin[k] + i * kLanes);
      for (int at = begin[k] + kLoads * kLanes; at < end[k]; at += kLanes)
        visit(entries_of(k)[at], first + k * kGroups, at);
    }
  }
}
/// The same for every entry of a bin.
template <class Entry, class Reads, int kThreads, class Visit>
__device__ __forceinline__ void for_each_in_segments(const BinArgs& bins, uint32_t bin, const Visit& visit) {
  for_each_in_segments<Entry, Reads, kThreads>(bins, 0, static_cast<int>(bins.num_tiles), SegmentTable(bins, bin),
                                               visit);
}

/// Adds up the drop and NaN counters of the first step's blocks, if requested. Executed by the first warp.
__device__ inline void sum_drops(const BinArgs& bins) {
  if (!bins.stats || threadIdx.x >= 32) return;
  unsigned nan = 0, outside = 0;
  for (int i = static_cast<int>(threadIdx.x); i < bins.num_drops; i += 32)
    nan += static_cast<unsigned>(bins.drops[i].num_nan), outside += static_cast<unsigned>(bins.drops[i].num_outside);
  nan = __reduce_add_sync(~0u, nan), outside = __reduce_add_sync(~0u, outside);
  if (threadIdx.x == 0) *bins.stats = {nan, outside};
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

/// Exclusive prefix sums of data[0, count) by a block, in place; returns the total. `count` is a multiple of 4, `data`
/// is aligned to 16 bytes, and `warps` has 32 words. Ends with a block barrier.
template <int kThreads>
__device__ uint32_t scan_block(uint32_t* data, uint32_t count, uint32_t* warps) {
  constexpr int kWarps = kThreads / 32;
  const uint32_t lane = threadIdx.x % 32, quads = count / 4;
  const uint32_t warp = __shfl_sync(~0u, threadIdx.x / 32, 0);            // known to the compiler as uniform
  const uint32_t strip = (quads + kWarps * 32 - 1) / (kWarps * 32) * 32;  // quads per warp
  const uint32_t first = warp * strip, last = min(first + strip, quads);
  auto* four = reinterpret_cast<uint4*>(data);
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

}  // namespace amdahl::sensor_cuda

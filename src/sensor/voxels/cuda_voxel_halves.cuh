// Counts of a bin's points in halves of words: two voxels a word, so that a bin has more voxels and a tile fewer
// segments, of more points each. A bin of far more points than others, or whose counts need more than 16 bits, is
// divided by voxel among the blocks that have done theirs.
#pragma once

#include "sensor/voxels/cuda_voxel_bytes.cuh"
#include "sensor/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda::halves {

inline constexpr int kThreads = 1024;
/// Words of a bin. Each has the voxels of two offsets that are so far apart: neighbours, of which a scan has points at
/// once, do not meet in one.
inline constexpr uint32_t kWords = kMaxHalfVoxels / 2;
inline constexpr uint32_t kHalfBits = 16, kHalf = (1u << kHalfBits) - 1;
inline constexpr int kTilesAtOnce = 2048;
using Reading = Reads<8, 6, 2>;
// A bin is crowded from so many times the points of a bin on average, but not of fewer than these.
inline constexpr uint32_t kCrowdedTimes = 3, kLeastCrowded = 1 << 15;
inline constexpr int kShareBits = 3;  // it has 2^kShareBits shares, which neighbours are not in one of

/// How many words hold a bin.
__host__ __device__ inline uint32_t num_words(const BinArgs& bins) { return min(bins.bin_voxels(), kWords); }

/// A bin's segments in some tiles, looked up.
struct Segments {
  uint32_t bounds[kTilesAtOnce];  // where each begins, and above that where it ends
  uint32_t num_points;            // of all that have been looked up
};
struct KnownSegments {
  const uint32_t* bounds;
  __device__ __forceinline__ void skip(int tiles) { bounds += tiles; }
  __device__ __forceinline__ Segment operator[](int tile) const {
    return {static_cast<int>(bounds[tile] & 0xffff), static_cast<int>(bounds[tile] >> 16)};
  }
};
static_assert(kMaxCountedTilePoints <= 0xffff);
static_assert(kWords * sizeof(uint32_t) + sizeof(Segments) + 1024 <= kHalvesShared);  // 1024: the chip's own

/// Looks up a bin's segments in `count` tiles from `first` on. Waits for all threads before and after.
__device__ __forceinline__ void look_up(const BinArgs& bins, uint32_t bin, int64_t first, int count,
                                        Segments& segments) {
  __syncthreads();
  const SegmentTable table(bins, bin);
  uint32_t points = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const auto [begin, end] = table[first + i];
    segments.bounds[i] = static_cast<uint32_t>(begin | end << 16);
    points += static_cast<uint32_t>(end - begin);
  }
  points = __reduce_add_sync(~0u, points);
  if (threadIdx.x % 32 == 0 && points > 0) atomicAdd(&segments.num_points, points);
  __syncthreads();
}

/// Calls work(first tile, count) for all tiles, as many at once as segments can be looked up, while it returns true.
template <class Work>
__device__ __forceinline__ void for_each_tiles(const BinArgs& bins, const Work& work) {
  for (int rank = 0; rank < bins.num_ranks; ++rank) {
    const int64_t num_tiles = bins.tiles_of_rank ? bins.tiles_of_rank[rank] : bins.num_tiles;
    for (int64_t first = 0; first < num_tiles; first += kTilesAtOnce)
      if (!work(rank * bins.num_tiles + first, static_cast<int>(min(num_tiles - first, int64_t{kTilesAtOnce})))) return;
  }
}

/// Calls visit(offset) for all points of long segments in `count` tiles from `first_tile` on: a lane reads eight points
/// at once, and four times that ahead.
template <class Visit>
__device__ __forceinline__ void for_each_of_many(const BinArgs& bins, int64_t first_tile, int count,
                                                 const Segments& segments, const Visit& visit) {
  constexpr int kLanes = 8, kEight = 8, kAhead = 4;
  const int lane = threadIdx.x % kLanes;
  for (int tile = static_cast<int>(threadIdx.x) / kLanes; tile < count; tile += kThreads / kLanes) {
    const auto [begin, end] = KnownSegments{segments.bounds}[tile];
    const auto* eights = reinterpret_cast<const uint4*>(bins.sorted<CountRow>(first_tile + tile));
    for (int first = begin / kEight + lane; first * kEight < end; first += kLanes * kAhead) {
      uint4 ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if ((first + k * kLanes) * kEight < end) ahead[k] = eights[first + k * kLanes];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const uint32_t pairs[4] = {ahead[k].x, ahead[k].y, ahead[k].z, ahead[k].w};
#pragma unroll
        for (int i = 0; i < kEight; ++i) {
          const int at = (first + k * kLanes) * kEight + i;
          if (at >= begin && at < end) visit(pairs[i / 2] >> 16 * (i % 2) & 0xffff);
        }
      }
    }
  }
}

__device__ __forceinline__ void clear(uint32_t* words, uint32_t count) {
  for (uint32_t i = threadIdx.x * 4; i < count; i += kThreads * 4) *reinterpret_cast<uint4*>(words + i) = {};
}

/// Whether the halves hold so many points: one that was too small has lost 2^16 and at most given one to its neighbour.
__device__ __forceinline__ bool hold(const BinArgs& bins, const uint32_t* words, uint32_t points) {
  __shared__ uint32_t all;
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  uint32_t sum = 0;
  for (uint32_t i = threadIdx.x; i < num_words(bins); i += kThreads)
    sum += (words[i] & kHalf) + (words[i] >> kHalfBits);
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0) atomicAdd(&all, sum);
  __syncthreads();
  return all == points;
}

/// Counts a bin in halves; false where it is crowded. All threads have counted when it returns. Calls wait() before it
/// reads.
template <class Wait>
__device__ __forceinline__ bool count_bin(const BinArgs& bins, uint32_t bin, uint32_t* words, Segments& segments,
                                          const Wait& wait) {
  bool crowded = false;
  int64_t tiles = 0;
  clear(words, num_words(bins));
  if (threadIdx.x == 0) segments.num_points = 0;
  wait();
  for_each_tiles(bins, [&](int64_t first, int count) {
    look_up(bins, bin, first, count, segments);
    tiles += count;
    const int64_t mean = tiles * bins.tile_points >> bins.bin_bits;
    crowded = segments.num_points > max(mean * kCrowdedTimes, int64_t{kLeastCrowded});
    if (crowded) return false;
    for_each_in_segments<CountRow, Reading, kThreads>(
        bins, first, count, KnownSegments{segments.bounds},
        [&](uint32_t offset, int) { atomicAdd(words + offset % kWords, 1u << (offset / kWords * kHalfBits)); });
    return true;
  });
  __syncthreads();
  return !crowded && (segments.num_points <= kHalf || hold(bins, words, segments.num_points));
}

/// Bytes of eight voxels: of the lower or upper halves of these words, each of which is less than 256.
__device__ __forceinline__ uint2 bytes_of_halves(const uint4& a, const uint4& b, uint32_t half) {
  const uint32_t pick = half == 0 ? 0x0040 : 0x0062;  // the same byte of two words
  const auto four = [&](const uint4& w) {
    return __byte_perm(__byte_perm(w.x, w.y, pick), __byte_perm(w.z, w.w, pick), 0x5410);
  };
  return {four(a), four(b)};
}

/// Calls visit(offset, voxel, bytes, there) for every eight neighbours of a bin that are counted, by whole warps, each
/// of neighbouring eights; voxels not there have zeros. What a byte does not hold goes to the list.
template <class Visit>
__device__ __forceinline__ void for_each_eight(const BinArgs& bins, uint32_t bin, const uint32_t* words,
                                               const ByteArgs& bytes, const Visit& visit) {
  constexpr uint32_t kVoxels = 8;
  for (uint32_t first = (threadIdx.x & ~31u) * kVoxels; first < num_words(bins); first += kThreads * kVoxels) {
    const uint32_t at = first + threadIdx.x % 32 * kVoxels;
    const bool counted = at < num_words(bins);
    const auto* fours = reinterpret_cast<const uint4*>(words + at);
    const uint4 a = counted ? fours[0] : uint4{}, b = counted ? fours[1] : uint4{};
    const uint32_t most =  // of each half
        __vmaxu2(__vmaxu2(__vmaxu2(a.x, a.y), __vmaxu2(a.z, a.w)), __vmaxu2(__vmaxu2(b.x, b.y), __vmaxu2(b.z, b.w)));
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t offset = half * kWords + at, voxel = voxel_of(bins, bin, offset);
      const auto count = [&](uint32_t word) { return word >> (half * kHalfBits) & kHalf; };
      uint2 eight = bytes_of_halves(a, b, half);
      if (count(most) > static_cast<uint32_t>(bytes.most)) {
        const uint32_t all[kVoxels] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        eight = {};
#pragma unroll
        for (uint32_t i = 0; i < kVoxels; ++i)
          (i < 4 ? eight.x : eight.y) |= bytes.limit(count(all[i]), bins.first_voxel + voxel + i) << (8 * (i % 4));
      }
      visit(offset, voxel, eight, counted && offset < bins.bin_voxels() && voxel < bins.num_voxels);
    }
  }
}

/// Writes a bin's counts as numbers; `grid` begins with the slab.
__device__ __forceinline__ void write_numbers_of_bin(const BinArgs& bins, uint32_t bin, const uint32_t* words,
                                                     int32_t* grid) {
  constexpr uint32_t kVoxels = 4;
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  for (uint32_t at = threadIdx.x * kVoxels; at < num_words(bins); at += kThreads * kVoxels) {
    const uint4 four = *reinterpret_cast<const uint4*>(words + at);
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t offset = half * kWords + at;
      if (offset >= bins.bin_voxels()) continue;
      const auto number = [&](uint32_t word) { return static_cast<int>(word >> (half * kHalfBits) & kHalf); };
      write_numbers(make_int4(number(four.x), number(four.y), number(four.z), number(four.w)),
                    voxel_of(bins, bin, offset), static_cast<uint32_t>(bins.num_voxels), aligned, grid);
    }
  }
}

/// Counts a share of a crowded bin, in whole words, and calls write(offset, voxel, count) for its voxels. All threads
/// have done so when it returns.
template <class Write>
__device__ void count_share(const BinArgs& bins, uint32_t bin, uint32_t share, uint32_t* words, Segments& segments,
                            const Write& write) {
  const uint32_t voxels = bins.bin_voxels() >> kShareBits;
  static_assert(kChunkVoxels >> kShareBits >= 4, "whole vectors of words");
  clear(words, voxels);
  for_each_tiles(bins, [&](int64_t first, int count) {
    look_up(bins, bin, first, count, segments);
    for_each_of_many(bins, first, count, segments, [&](uint32_t offset) {
      if (offset % (1u << kShareBits) == share) atomicAdd(words + (offset >> kShareBits), 1u);
    });
    return true;
  });
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < voxels; i += kThreads) {
    const uint32_t offset = i << kShareBits | share, voxel = voxel_of(bins, bin, offset);
    if (voxel < bins.num_voxels) write(offset, voxel, words[i]);
  }
  __syncthreads();
}

/// Tells other blocks of a crowded bin. By one thread.
__device__ inline void share_out(CrowdedBins& crowded, uint32_t bin) {
  atomicExch(&crowded.bins[atomicAdd(&crowded.num_bins, 1u)], bin + 1);
}
/// A share of the bin before `bin_after`; of none where that is 0.
struct Claim {
  uint32_t bin_after, share;
};
/// The next one that nobody has. By one thread.
__device__ inline Claim claim(CrowdedBins& crowded) {
  auto& now = const_cast<volatile CrowdedBins&>(crowded);
  for (uint32_t next = now.num_claimed; next >> kShareBits < now.num_bins;) {
    const uint32_t claimed = atomicCAS(&crowded.num_claimed, next, next + 1);
    if (claimed != next) {
      next = claimed;
      continue;
    }
    uint32_t bin_after;
    do bin_after = now.bins[next >> kShareBits];
    while (bin_after == 0);  // whoever has counted it is about to write it
    return {bin_after, next % (1u << kShareBits)};
  }
  return {};
}

/// Counts bins [begin, end), of which each of `blocks` has every blocks-th. Calls wait() before it reads. `writer` has
/// write_bin(bin), of what is in the words now; leave_bin(bin), for a crowded one, by all threads; and then
/// write(bin, offset, voxel, count) for its voxels, by whoever has counted them. A block that finds no share to claim
/// ends: whoever shares out a bin claims until none is left.
template <class Wait, class Writer>
__device__ __forceinline__ void count_all(const BinArgs& bins, uint32_t begin, uint32_t end, uint32_t blocks,
                                          uint32_t* words, const Wait& wait, const Writer& writer) {
  __shared__ Segments segments;
  __shared__ Claim next;
  bool waits = true;
  for (uint32_t bin = begin + blockIdx.x; bin < end; bin += blocks) {
    const bool counted = count_bin(bins, bin, words, segments, [&] {
      if (waits) wait();
      waits = false;
    });
    if (counted) {
      writer.write_bin(bin);
    } else {
      writer.leave_bin(bin);
      if (threadIdx.x == 0) share_out(*bins.crowded, bin);
    }
    __syncthreads();
  }
  for (;;) {
    if (threadIdx.x == 0) next = claim(*bins.crowded);
    __syncthreads();
    if (next.bin_after == 0) return;
    const uint32_t bin = next.bin_after - 1;
    count_share(bins, bin, next.share, words, segments,
                [&](uint32_t offset, uint32_t voxel, uint32_t count) { writer.write(bin, offset, voxel, count); });
  }
}

}  // namespace amdahl::sensor_cuda::halves

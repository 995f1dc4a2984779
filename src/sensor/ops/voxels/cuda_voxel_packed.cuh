// Counting a bin's points in packed 16-bit counters, two per word, so that bins have more voxels and tiles have fewer
// and longer segments. A bin is overfull if it has far more points than others or its counts may need more than 16
// bits; it is then divided by voxel among blocks that have finished their bins.
#pragma once

#include "sensor/ops/voxels/cuda_voxel_bytes.cuh"
#include "sensor/ops/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda::packed_counters {

inline constexpr int kThreads = 1024;
/// Words of a bin. The two offsets of a word are this far apart, because a scan has points of neighbouring voxels at
/// the same time.
inline constexpr uint32_t kWords = kMaxPackedVoxels / 2;
inline constexpr uint32_t kCounterBits = 16, kCounterMask = (1u << kCounterBits) - 1;
inline constexpr int kTilesAtOnce = 2048;
using Reading = Reads<8, 7, 2>;
// A bin is overfull if it has more than kOverfullTimes the average points of a bin and more than kLeastOverfull.
inline constexpr uint32_t kOverfullTimes = 3, kLeastOverfull = 1 << 15;
inline constexpr int kShareBits = 3;  // an overfull bin has 2^kShareBits shares of interleaved voxels

/// Words of the counters of a bin.
__host__ __device__ inline uint32_t num_words(const BinArgs& bins) { return min(bins.bin_voxels(), kWords); }

/// Segments of a bin in some tiles, copied to shared memory.
struct Segments {
  uint32_t words[kTilesAtOnce];  // words of the table
  uint32_t num_points;           // of all segments of the bin so far
  __device__ __forceinline__ Segment operator[](int tile) const { return Segment::of(words[tile]); }
};
static_assert(kWords * sizeof(uint32_t) + sizeof(Segments) + 1024 <= kPackedShared);  // 1024: reserved by the GPU

/// Copies a bin's segments in `count` tiles from `first` on. Begins and ends with a block barrier.
__device__ __forceinline__ void look_up(const BinArgs& bins, uint32_t bin, int64_t first, int count,
                                        Segments& segments) {
  __syncthreads();
  const uint32_t* table = bins.table + first * bins.num_bins() + bin;
  uint32_t points = 0;
#pragma unroll
  for (int k = 0; k < kTilesAtOnce / kThreads; ++k) {
    const int i = k * kThreads + static_cast<int>(threadIdx.x);
    if (i >= count) continue;
    const uint32_t word = table[i * bins.num_bins()];
    const auto [begin, end] = Segment::of(word);
    segments.words[i] = word, points += static_cast<uint32_t>(end - begin);
  }
  points = __reduce_add_sync(~0u, points);
  if (threadIdx.x % 32 == 0 && points > 0) atomicAdd(&segments.num_points, points);
  __syncthreads();
}

/// Calls work(first tile, count) for all tiles, at most kTilesAtOnce at a time, until it returns false.
template <class Work>
__device__ __forceinline__ void for_each_tiles(const BinArgs& bins, const Work& work) {
  for (int rank = 0; rank < bins.num_ranks; ++rank) {
    const int64_t num_tiles = bins.tiles_of_rank ? bins.tiles_of_rank[rank] : bins.num_tiles;
    for (int64_t first = 0; first < num_tiles; first += kTilesAtOnce)
      if (!work(rank * bins.num_tiles + first, static_cast<int>(min(num_tiles - first, int64_t{kTilesAtOnce})))) return;
  }
}

__device__ __forceinline__ void clear(uint32_t* words, uint32_t count) {
  for (uint32_t i = threadIdx.x * 4; i < count; i += kThreads * 4) *reinterpret_cast<uint4*>(words + i) = {};
}

/// Whether the sum of all counters is `points`. A counter that overflows loses 2^16 and carries at most one into its
/// neighbour, so the sum differs.
__device__ __forceinline__ bool hold(const BinArgs& bins, const uint32_t* words, uint32_t points) {
  __shared__ uint32_t all;
  if (threadIdx.x == 0) all = 0;
  __syncthreads();
  uint32_t sum = 0;
  for (uint32_t i = threadIdx.x; i < num_words(bins); i += kThreads)
    sum += (words[i] & kCounterMask) + (words[i] >> kCounterBits);
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0) atomicAdd(&all, sum);
  __syncthreads();
  return all == points;
}

/// Counts a bin; false if it is overfull. Calls wait() before it reads, and ends with a block barrier.
template <class Wait>
__device__ __forceinline__ bool count_bin(const BinArgs& bins, uint32_t bin, uint32_t* words, Segments& segments,
                                          const Wait& wait) {
  bool overfull = false;
  int64_t tiles = 0;
  clear(words, num_words(bins));
  if (threadIdx.x == 0) segments.num_points = 0;
  wait();
  for_each_tiles(bins, [&](int64_t first, int count) {
    look_up(bins, bin, first, count, segments);
    tiles += count;
    const int64_t mean = tiles * bins.tile_points >> bins.bin_bits;
    overfull = segments.num_points > max(mean * kOverfullTimes, int64_t{kLeastOverfull});
    if (overfull) return false;
    for_each_in_segments<uint16_t, Reading, kThreads>(bins, first, count, segments, [&](uint32_t offset, int, int) {
      atomicAdd(words + offset % kWords, 1u << (offset / kWords * kCounterBits));
    });
    return true;
  });
  __syncthreads();
  return !overfull && (segments.num_points <= kCounterMask || hold(bins, words, segments.num_points));
}

/// Bytes of eight voxels, whose counters are the low or high ones of eight words; the rest of large counts goes to the
/// overflow list.
__device__ __forceinline__ uint2 limit_eight(const ByteArgs& bytes, const uint32_t* words, uint32_t counter,
                                             int64_t voxel) {
  uint64_t eight = 0;
#pragma unroll 1
  for (int i = 0; i < 8; ++i)
    eight |= uint64_t{bytes.limit(words[i] >> (counter * kCounterBits) & kCounterMask, voxel + i)} << (8 * i);
  return {static_cast<uint32_t>(eight), static_cast<uint32_t>(eight >> 32)};
}

/// Calls visit(offset, voxel, bytes, exists) for every eight consecutive voxels of a counted bin, by whole warps with
/// consecutive eights. Bytes of voxels that do not exist are 0. The rest of large counts goes to the overflow list.
template <class Visit>
__device__ __forceinline__ void for_each_eight(const BinArgs& bins, uint32_t bin, const uint32_t* words,
                                               const ByteArgs& bytes, const Visit& visit) {
  constexpr uint32_t kVoxels = 8, kLowBytes = 0x6240;  // of the low, then of the high counters of two words
  // Counts up to `fits` fit into a byte; if one is larger, the eight are limited one by one.
  const uint32_t fits = (0x80000000u >> __clz(bytes.most + 1)) - 1, above = ~(fits | fits << kCounterBits);
#pragma unroll 1
  for (uint32_t first = (threadIdx.x & ~31u) * kVoxels; first < num_words(bins); first += kThreads * kVoxels) {
    const uint32_t at = first + threadIdx.x % 32 * kVoxels;
    const bool counted = at < num_words(bins);
    const auto* fours = reinterpret_cast<const uint4*>(words + at);
    const uint4 a = counted ? fours[0] : uint4{}, b = counted ? fours[1] : uint4{};
    const uint32_t a_xy = __byte_perm(a.x, a.y, kLowBytes), a_zw = __byte_perm(a.z, a.w, kLowBytes),
                   b_xy = __byte_perm(b.x, b.y, kLowBytes), b_zw = __byte_perm(b.z, b.w, kLowBytes);
    uint2 eights[2] = {{__byte_perm(a_xy, a_zw, 0x5410), __byte_perm(b_xy, b_zw, 0x5410)},
                       {__byte_perm(a_xy, a_zw, 0x7632), __byte_perm(b_xy, b_zw, 0x7632)}};
    const bool fit = ((a.x | a.y | a.z | a.w | b.x | b.y | b.z | b.w) & above) == 0;
#pragma unroll
    for (uint32_t counter = 0; counter < 2; ++counter) {
      const uint32_t offset = counter * kWords + at, voxel = voxel_of(bins, bin, offset);
      if (!fit) eights[counter] = limit_eight(bytes, words + at, counter, bins.first_voxel + voxel);
      visit(offset, voxel, eights[counter], counted && offset < bins.bin_voxels() && voxel < bins.num_voxels);
    }
  }
}

/// Writes a bin's counts as numbers; `grid` is the slab's first voxel.
__device__ __forceinline__ void write_numbers_of_bin(const BinArgs& bins, uint32_t bin, const uint32_t* words,
                                                     int32_t* grid) {
  constexpr uint32_t kVoxels = 4;
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  for (uint32_t at = threadIdx.x * kVoxels; at < num_words(bins); at += kThreads * kVoxels) {
    const uint4 four = *reinterpret_cast<const uint4*>(words + at);
#pragma unroll
    for (uint32_t counter = 0; counter < 2; ++counter) {
      const uint32_t offset = counter * kWords + at;
      if (offset >= bins.bin_voxels()) continue;
      const auto number = [&](uint32_t word) {
        return static_cast<int>(word >> (counter * kCounterBits) & kCounterMask);
      };
      write_numbers(make_int4(number(four.x), number(four.y), number(four.z), number(four.w)),
                    voxel_of(bins, bin, offset), static_cast<uint32_t>(bins.num_voxels), aligned, grid);
    }
  }
}

/// Counts a share of an overfull bin in 32-bit counters and calls write(offset, voxel, count) for its voxels. Ends with
/// a block barrier.
template <class Write>
__device__ void count_share(const BinArgs& bins, uint32_t bin, uint32_t share, uint32_t* words, Segments& segments,
                            const Write& write) {
  const uint32_t voxels = bins.bin_voxels() >> kShareBits;
  static_assert(kChunkVoxels >> kShareBits >= 4, "whole vectors of words");
  clear(words, voxels);
  for_each_tiles(bins, [&](int64_t first, int count) {
    look_up(bins, bin, first, count, segments);
    for_each_in_segments<uint16_t, Reading, kThreads>(bins, first, count, segments, [&](uint32_t offset, int, int) {
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

/// Appends an overfull bin to the list. Executed by one thread.
__device__ inline void share_out(OverfullBins& overfull, uint32_t bin) {
  atomicExch(&overfull.bins[atomicAdd(&overfull.num_bins, 1u)], bin + 1);
}
/// A share of bin `bin_after` - 1; none if that is 0.
struct Claim {
  uint32_t bin_after, share;
};
/// Claims the next free share. Executed by one thread.
__device__ inline Claim claim(OverfullBins& overfull) {
  auto& now = const_cast<volatile OverfullBins&>(overfull);
  for (uint32_t next = now.num_claimed; next >> kShareBits < now.num_bins;) {
    const uint32_t claimed = atomicCAS(&overfull.num_claimed, next, next + 1);
    if (claimed != next) {
      next = claimed;
      continue;
    }
    uint32_t bin_after;
    do bin_after = now.bins[next >> kShareBits];
    while (bin_after == 0);  // the block that appends the bin is about to write it
    return {bin_after, next % (1u << kShareBits)};
  }
  return {};
}

/// Counts bins [begin, end); block b of `blocks` counts every blocks-th bin. Calls wait() before it reads. `writer` has
/// write_bin(bin), which writes the counters, leave_bin(bin), called by all threads for an overfull bin, and write(bin,
/// offset, voxel, count), called for the voxels of overfull bins by the block that has counted them. A block ends when
/// no share is left to claim; the block that appends a bin itself claims shares, so every share is counted.
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
      if (threadIdx.x == 0) share_out(*bins.overfull, bin);
    }
    __syncthreads();
  }
  for (;;) {
    if (threadIdx.x == 0) next = claim(*bins.overfull);
    __syncthreads();
    if (next.bin_after == 0) return;
    const uint32_t bin = next.bin_after - 1;
    count_share(bins, bin, next.share, words, segments,
                [&](uint32_t offset, uint32_t voxel, uint32_t count) { writer.write(bin, offset, voxel, count); });
  }
}

}  // namespace amdahl::sensor_cuda::packed_counters

// Counts of a bin's points in packed 16-bit counters: two voxels a word, so that a bin has more voxels and a tile fewer
// segments, of more points each. A bin of far more points than others, or whose counts need more than 16 bits, is
// overfull: it is divided by voxel among the blocks that have done theirs.
#pragma once

#include "sensor/voxels/cuda_voxel_bytes.cuh"
#include "sensor/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda::packed_counters {

inline constexpr int kThreads = 1024;
/// Words of a bin. Each has the voxels of two offsets that are so far apart: neighbours, of which a scan has points at
/// once, do not meet in one.
inline constexpr uint32_t kWords = kMaxPackedVoxels / 2;
inline constexpr uint32_t kCounterBits = 16, kCounterMask = (1u << kCounterBits) - 1;
inline constexpr int kTilesAtOnce = 2048;
using Reading = Reads<8, 7, 2>;
// A bin is overfull from so many times the points of a bin on average, but not of fewer than these.
inline constexpr uint32_t kOverfullTimes = 3, kLeastOverfull = 1 << 15;
inline constexpr int kShareBits = 3;  // it has 2^kShareBits shares, which neighbours are not in one of

/// How many words hold a bin.
__host__ __device__ inline uint32_t num_words(const BinArgs& bins) { return min(bins.bin_voxels(), kWords); }

/// Segments of a bin in some tiles, looked up.
struct Segments {
  uint32_t words[kTilesAtOnce];  // as in the table
  uint32_t num_points;           // of all that have been looked up
  __device__ __forceinline__ Segment operator[](int tile) const { return Segment::of(words[tile]); }
};
static_assert(kWords * sizeof(uint32_t) + sizeof(Segments) + 1024 <= kPackedShared);  // 1024: the chip's own

/// Looks up a bin's segments in `count` tiles from `first` on. Waits for all threads before and after.
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

/// Calls work(first tile, count) for all tiles, as many at once as segments can be looked up, while it returns true.
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

/// Whether the counters hold so many points: one that was too small has lost 2^16 and at most given one to its
/// neighbour.
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

/// Counts a bin; false where it is overfull. All threads have counted when it returns. Calls wait() before it reads.
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

/// Bytes of eight voxels of one half. What a byte does not hold goes to the list.
__device__ __forceinline__ uint2 limit_eight(const ByteArgs& bytes, const uint32_t* words, uint32_t counter,
                                             int64_t voxel) {
  uint64_t eight = 0;
#pragma unroll 1
  for (int i = 0; i < 8; ++i)
    eight |= uint64_t{bytes.limit(words[i] >> (counter * kCounterBits) & kCounterMask, voxel + i)} << (8 * i);
  return {static_cast<uint32_t>(eight), static_cast<uint32_t>(eight >> 32)};
}

/// Calls visit(offset, voxel, bytes, there) for every eight neighbours of a bin that are counted, by whole warps, each
/// of neighbouring eights; voxels not there have zeros. What a byte does not hold goes to the list.
template <class Visit>
__device__ __forceinline__ void for_each_eight(const BinArgs& bins, uint32_t bin, const uint32_t* words,
                                               const ByteArgs& bytes, const Visit& visit) {
  constexpr uint32_t kVoxels = 8, kLowBytes = 0x6240;  // of each half of two words
  // What is not more than `fits` a byte holds, and more than that is looked at one by one.
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

/// Writes a bin's counts as numbers; `grid` begins with the slab.
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

/// Counts a share of an overfull bin, in whole words, and calls write(offset, voxel, count) for its voxels. All threads
/// have done so when it returns.
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

/// Tells other blocks of an overfull bin. By one thread.
__device__ inline void share_out(OverfullBins& overfull, uint32_t bin) {
  atomicExch(&overfull.bins[atomicAdd(&overfull.num_bins, 1u)], bin + 1);
}
/// A share of the bin before `bin_after`; of none where that is 0.
struct Claim {
  uint32_t bin_after, share;
};
/// The next one that nobody has. By one thread.
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
    while (bin_after == 0);  // whoever has counted it is about to write it
    return {bin_after, next % (1u << kShareBits)};
  }
  return {};
}

/// Counts bins [begin, end), of which each of `blocks` has every blocks-th. Calls wait() before it reads. `writer` has
/// write_bin(bin), of what is in the words now; leave_bin(bin), for an overfull one, by all threads; and then
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

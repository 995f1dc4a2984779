// A thread's points of a tile: placed in bins, counted, and sorted by bin. What the kernels share that deal or sort
// tiles.
#pragma once

#include "sensor/voxels/cuda_voxel_locate.cuh"
#include "sensor/voxels/cuda_voxel_tiles.cuh"

namespace amdahl::sensor_cuda {

/// Where a point goes: its bin from this bit on, and below kOffsetBits the voxel's offset in it.
constexpr int kBinShift = kOffsetBits + 2;

__device__ __forceinline__ void clear(const BinArgs& bins, uint32_t* begins) {
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < num_begins(bins); i += kTileThreads) begins[i] = 0;
}

/// A thread's points of a tile: where they are in bins, and how many bytes of entries the tile has before each in its
/// bin.
template <class Row, int kQuads>
struct Placed {
  static constexpr int kPoints = kQuads * 4;
  static constexpr uint32_t kEntryBytes = sizeof(typename Row::Slot);
  static_assert(int64_t{kMaxBins + kEndWords + kNowhereWords} << kBinShift <= int64_t{1} << 32);
  uint32_t place[kPoints], rank[kPoints];
  int from_warp = 0;  // points of the tile from the warp's first on

  __device__ bool has(const BinArgs& bins, int at) const { return place[at] < bins.num_bins() << kBinShift; }
  __device__ uint32_t bin(int at) const { return place[at] >> kBinShift; }
  /// The word of the point's bin.
  __device__ uint32_t& of_bin(uint32_t* words, int at) const {
    static_assert(kBinShift - kOffsetBits == 2);
    return *reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(words) + (place[at] >> kOffsetBits));
  }
  /// Of the point that the thread has `at`: point i of quad q is (q * kTileThreads + thread) * 4 + i of its tile.
  __device__ typename Row::Slot entry(int at) const {
    const uint32_t in_tile = (at / 4 * kTileThreads + threadIdx.x) * 4 + at % 4;
    return static_cast<typename Row::Slot>(offset_of(place[at]) | in_tile << kOffsetBits);
  }
  /// Whether the warp may have points there. Only points of counts ask: it takes registers.
  __device__ bool may_have(int quad) const {
    return quad == 0 || Row::kHasPoints || from_warp > quad * 4 * kTileThreads;
  }
  /// Calls visit(at) for all points that the warp may have.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (!may_have(q)) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(q * 4 + i);
    }
  }
};

/// Places the points of a quad of which `count` are there, whose coordinates `p` are `from` memory.
template <Quotient kQuotient>
__device__ __forceinline__ void place_quad(const GridArgs& grid, const BinArgs& bins, const float* from,
                                           const float (&p)[12], int count, uint32_t* places, Fates& fates) {
  using Unsigned = std::make_unsigned_t<VoxelIndex<kQuotient>>;
  const uint32_t nowhere = (bins.num_bins() + kEndWords + threadIdx.x % kNowhereWords) << kBinShift;
  VoxelIndex<kQuotient> voxel[4];
  locate_quad<kQuotient>(grid, from, p, count, fates, voxel);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto in_slab = static_cast<Unsigned>(voxel[i]);
    const BinPlace place = place_in_bins(static_cast<uint32_t>(in_slab), bins.bin_bits);
    places[i] = in_slab < static_cast<Unsigned>(bins.num_voxels) ? (place.bin << kBinShift) + place.offset : nowhere;
  }
}

/// Places a thread's points of the tile of `count` that begins here.
template <Quotient kQuotient, class Row, int kQuads, class Source>
__device__ __forceinline__ void place_points(const GridArgs& grid, const BinArgs& bins, const Source& source,
                                             const float* from, int count, Placed<Row, kQuads>& placed, Fates& fates) {
  placed.from_warp = count - static_cast<int>(threadIdx.x & ~31u) * 4;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    if (!placed.may_have(q)) continue;
    const int quad = q * kTileThreads + static_cast<int>(threadIdx.x), left = count - quad * 4;
    float p[12];
    source.wait(q);
    source.load(from, quad, left, p);
    place_quad<kQuotient>(grid, bins, from + quad * 12, p, left, placed.place + q * 4, fates);
  }
}

/// Counts a thread's points. All atomics are under way at once.
template <class Row, int kQuads>
__device__ __forceinline__ void count_points(uint32_t* lengths, Placed<Row, kQuads>& placed) {
  placed.for_each([&](int at) { placed.rank[at] = atomicAdd(&placed.of_bin(lengths, at), placed.kEntryBytes); });
}

/// Writes a tile's points sorted by bin, those of ranks below kFirstRank left out; begins are lengths. Clears what the
/// next tile is counted by, if there may be one. Waits for all threads before, but not after it has read what it
/// writes.
template <uint32_t kFirstRank, class Row, int kQuads, class Output>
__device__ __forceinline__ void write_sorted(const BinArgs& bins, int64_t tile, const TileMemory<Row, kQuads>& memory,
                                             Placed<Row, kQuads>& placed, const Output& output) {
  __shared__ uint32_t warps[32];
  constexpr uint32_t kEntryBytes = sizeof(typename Row::Slot);
  const uint32_t num_bins = bins.num_bins();
#pragma unroll
  for (int at = 0; at < kQuads * 4; ++at) asm volatile("" : "+r"(placed.place[at]));  // no register keeps a part of it
  __syncthreads();
  if (kFirstRank == 0) clear(bins, memory.next_begins);
  if constexpr (Row::kHasPoints)  // of which there are more bins
    scan_block<kTileThreads>(memory.begins, num_begins(bins), warps);
  else
    scan_by_warp(memory.begins, num_begins(bins));
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < num_bins; i += kTileThreads)
    output.write_table(bins, tile, i,
                       Segment::word(memory.begins[i] / kEntryBytes, memory.begins[i + 1] / kEntryBytes));
  uint32_t to[kQuads * 4];
  placed.for_each([&](int at) { to[at] = placed.of_bin(memory.begins, at) + placed.rank[at] - kFirstRank; });
  placed.for_each([&](int at) {
    if (kFirstRank == 0 || (placed.has(bins, at) && placed.rank[at] >= kFirstRank))
      *reinterpret_cast<typename Row::Slot*>(memory.sorted + to[at]) = placed.entry(at);
  });
  __syncthreads();
  output.write_entries(bins, tile, memory);
}

}  // namespace amdahl::sensor_cuda

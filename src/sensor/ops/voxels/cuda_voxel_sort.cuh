// Sorting a tile of points by bin in shared memory, and its output: the device's own memory, or the memory of the ranks
// that count the bins.
#pragma once

#include "sensor/ops/voxels/cuda_voxel_locate.cuh"
#include "sensor/ops/voxels/cuda_voxel_points.cuh"

namespace amdahl::sensor_cuda {

/// Length of the array of segment begins: the bins, padding to a multiple of four that includes the end, and one
/// additional bin per lane for points in no bin. Sorting these like all others is faster than branches.
inline constexpr uint32_t kEndWords = 4, kNowhereWords = 32;
__host__ __device__ inline uint32_t num_begins(const BinArgs& bins) {
  return bins.num_bins() + kEndWords + kNowhereWords;
}

/// Shared memory of a tile.
template <class Entry, int kQuads>
struct TileMemory {
  static constexpr uint32_t kEntries = kQuads * 4 * kTileThreads;
  Entry* sorted;          // [kEntries]
  uint32_t* begins;       // [num_begins], of the segments; their lengths before the prefix sums
  uint32_t* next_begins;  // [num_begins], for the next tile
  __device__ TileMemory(void* memory, const BinArgs& bins)
      : sorted(static_cast<Entry*>(memory)),
        begins(reinterpret_cast<uint32_t*>(sorted + kEntries)),
        next_begins(begins + num_begins(bins)) {}
  static size_t bytes(const BinArgs& bins) {
    return kEntries * sizeof(Entry) + 2 * num_begins(bins) * sizeof(uint32_t);
  }
};

__device__ __forceinline__ void clear(const BinArgs& bins, uint32_t* begins) {
  for (uint32_t i = threadIdx.x; i < num_begins(bins); i += kTileThreads) begins[i] = 0;
}

/// A thread's points of a tile: bin << kOffsetBits | offset, and the point's rank in its bin and tile.
template <int kQuads>
struct PlacedPoints {
  static constexpr int kPoints = kQuads * 4;
  uint32_t place[kPoints], rank[kPoints];

  __device__ bool has(const BinArgs& bins, int at) const { return place[at] < bins.num_bins() << kOffsetBits; }
  __device__ uint32_t bin(int at) const { return place[at] >> kOffsetBits; }
  /// Point i of quad q is (q * kTileThreads + thread) * 4 + i of its tile.
  template <class Entry>
  __device__ Entry entry(int at) const {
    const uint32_t in_tile = (at / 4 * kTileThreads + threadIdx.x) * 4 + at % 4;
    return static_cast<Entry>(offset_of(place[at]) | in_tile << kOffsetBits);
  }
  /// Counts the points and sets their ranks, with all atomics in flight at once.
  __device__ __forceinline__ void count(uint32_t* lengths) {
#pragma unroll
    for (int at = 0; at < kPoints; ++at) rank[at] = atomicAdd(&lengths[bin(at)], 1u);
  }
};

/// Computes the places of a quad's points, whose coordinates are `p`.
template <Quotient kQuotient>
__device__ __forceinline__ void place_quad(const GridArgs& grid, const BinArgs& bins, const Quad& quad,
                                           const float (&p)[12], uint32_t* places, Drops& drops) {
  using Unsigned = std::make_unsigned_t<VoxelIndex<kQuotient>>;
  const uint32_t nowhere = (bins.num_bins() + kEndWords + threadIdx.x % kNowhereWords) << kOffsetBits;
  VoxelIndex<kQuotient> voxel[4];
  locate_quad<kQuotient>(grid, quad.from, p, quad.count, drops, voxel);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto in_slab = static_cast<Unsigned>(voxel[i]);
    const BinPlace place = place_in_bins(static_cast<uint32_t>(in_slab), bins.bin_bits);
    places[i] = in_slab < static_cast<Unsigned>(bins.num_voxels) ? (place.bin << kOffsetBits) + place.offset : nowhere;
  }
}

/// Sorts a tile's points by bin, except ranks below `first_rank`. memory.begins must contain lengths. Clears
/// memory.next_begins. Begins with a block barrier, but does not end with one.
template <class Entry, int kQuads, class Output>
__device__ __forceinline__ void sort_tile(const BinArgs& bins, int64_t tile, const TileMemory<Entry, kQuads>& memory,
                                          const PlacedPoints<kQuads>& placed, uint32_t first_rank,
                                          const Output& output) {
  __shared__ uint32_t warps[32];
  constexpr int kPoints = kQuads * 4;
  __syncthreads();
  clear(bins, memory.next_begins);
  scan_block<kTileThreads>(memory.begins, num_begins(bins), warps);
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < bins.num_bins(); i += kTileThreads)
    output.write_table(bins, tile, i, Segment::word(memory.begins[i], memory.begins[i + 1]));
  uint32_t to[kPoints];
#pragma unroll
  for (int at = 0; at < kPoints; ++at) to[at] = memory.begins[placed.bin(at)] + placed.rank[at] - first_rank;
#pragma unroll
  for (int at = 0; at < kPoints; ++at)
    if (first_rank == 0 || (placed.has(bins, at) && placed.rank[at] >= first_rank))
      memory.sorted[to[at]] = placed.template entry<Entry>(at);
  __syncthreads();
  output.write_entries(bins, tile, memory);
}

/// Output of sorted tiles: the device's own memory.
struct OwnMemory {
  __device__ void begin(const BinArgs&) const {}
  __device__ __forceinline__ void write_table(const BinArgs& bins, int64_t tile, uint32_t bin, uint32_t segment) const {
    bins.table[tile * bins.num_bins() + bin] = segment;
  }
  template <class Entry, int kQuads>
  __device__ __forceinline__ void write_entries(const BinArgs& bins, int64_t tile,
                                                const TileMemory<Entry, kQuads>& memory) const {
    constexpr uint32_t kOfVector = sizeof(uint4) / sizeof(Entry);
    const uint32_t total = memory.begins[bins.num_bins()];
    auto* out = bins.sorted<Entry>(tile);
#pragma unroll
    for (uint32_t first = 0; first < memory.kEntries; first += kTileThreads * kOfVector) {
      const uint32_t i = first + threadIdx.x * kOfVector;
      if (i < total) *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(memory.sorted + i);
    }
  }
};

/// Output of sorted tiles: the memory of the ranks that count the bins. A vector with entries of two ranks goes to
/// both.
struct RanksMemory {
  SortedParts parts;
  __device__ void begin(const BinArgs& bins) const {
    if (blockIdx.x == 0 && static_cast<int>(threadIdx.x) < parts.num_ranks)
      parts.num_tiles[threadIdx.x][parts.rank] = static_cast<unsigned>(bins.num_tiles);
  }
  __device__ __forceinline__ void write_table(const BinArgs& bins, int64_t tile, uint32_t bin, uint32_t segment) const {
    for (int rank = 0; rank < parts.num_ranks; ++rank)
      if (bin >= parts.first_bin[rank] && bin < parts.first_bin[rank + 1])
        parts.tables[rank][(parts.rank * parts.tiles + tile) * bins.num_bins() + bin] = segment;
  }
  template <class Entry, int kQuads>
  __device__ __forceinline__ void write_entries(const BinArgs&, int64_t tile,
                                                const TileMemory<Entry, kQuads>& memory) const {
    constexpr uint32_t kOfVector = sizeof(uint4) / sizeof(Entry);
    for (int k = 0; k < parts.num_ranks; ++k) {  // each rank begins with another destination
      const int rank = parts.rank + k - (parts.rank + k < parts.num_ranks ? 0 : parts.num_ranks);
      const uint32_t begin = memory.begins[parts.first_bin[rank]] / kOfVector * kOfVector,
                     end = memory.begins[parts.first_bin[rank + 1]];
      auto* out = parts.entries[rank] + (parts.rank * parts.tiles + tile) * kMaxTilePoints;
#pragma unroll 2
      for (uint32_t i = begin + threadIdx.x * kOfVector; i < end; i += kTileThreads * kOfVector)
        *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(memory.sorted + i);
    }
  }
};

}  // namespace amdahl::sensor_cuda

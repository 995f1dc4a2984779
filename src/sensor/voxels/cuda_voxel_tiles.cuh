// A block's tile of points in shared memory, and where it goes once it is sorted by bin: into the device's own memory,
// or that of the ranks that count the bins.
#pragma once

#include "sensor/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda {

inline constexpr int kTileThreads = 1024;

/// Where the bins' segments begin, the end of the last one, and what makes whole quads of them. Then points that are in
/// no bin, which are counted and sorted like the others, as a bin for each lane: that costs less than branches.
inline constexpr uint32_t kEndWords = 4, kNowhereWords = 32;
__host__ __device__ inline uint32_t num_begins(const BinArgs& bins) {
  return bins.num_bins() + kEndWords + kNowhereWords;
}

/// What both kernels keep of a block's tile in shared memory, of which the first part is the kernel's own, so that it
/// begins at a line as memory's do.
template <class Row, int kQuads>
struct TileMemory {
  using Slot = typename Row::Slot;
  static constexpr size_t kSortedBytes = size_t{kQuads} * 4 * kTileThreads * sizeof(Slot);
  char* sorted;           // as many entries as threads have points
  uint32_t* begins;       // [num_begins], of the bins' segments, in bytes; first their lengths
  uint32_t* next_begins;  // [num_begins], of the next tile
  __device__ TileMemory(void* memory, size_t own_bytes, const BinArgs& bins)
      : sorted(static_cast<char*>(memory) + own_bytes),
        begins(reinterpret_cast<uint32_t*>(sorted + kSortedBytes)),
        next_begins(begins + num_begins(bins)) {}
  static size_t bytes(const BinArgs& bins) { return kSortedBytes + 2 * num_begins(bins) * sizeof(uint32_t); }
  __device__ void go_on() {
    uint32_t* const last_begins = begins;
    begins = next_begins, next_begins = last_begins;
  }
};

/// Where sorted tiles go: the device's own memory.
struct OwnMemory {
  __device__ void begin(const BinArgs&) const {}
  /// A bin's segment, as a table has it.
  __device__ __forceinline__ void write_table(const BinArgs& bins, int64_t tile, uint32_t bin, uint32_t segment) const {
    bins.table[tile * bins.num_bins() + bin] = segment;
  }
  template <class Row, int kQuads>
  __device__ __forceinline__ void write_entries(const BinArgs& bins, int64_t tile,
                                                const TileMemory<Row, kQuads>& memory) const {
    constexpr uint32_t kAtOnce = kTileThreads * sizeof(uint4);
    const uint32_t total = memory.begins[bins.num_bins()];
    auto* out = reinterpret_cast<char*>(bins.sorted<Row>(tile));
#pragma unroll
    for (uint32_t first = 0; first < memory.kSortedBytes; first += kAtOnce) {
      const uint32_t i = first + threadIdx.x * static_cast<uint32_t>(sizeof(uint4));
      if (i < total) *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(memory.sorted + i);
    }
  }
};

/// The memory of the ranks that count the bins. A vector with entries of two ranks goes to both.
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
  template <class Row, int kQuads>
  __device__ __forceinline__ void write_entries(const BinArgs&, int64_t tile,
                                                const TileMemory<Row, kQuads>& memory) const {
    for (int k = 0; k < parts.num_ranks; ++k) {  // ranks write to different ones at a time
      const int rank = parts.rank + k - (parts.rank + k < parts.num_ranks ? 0 : parts.num_ranks);
      const uint32_t begin = memory.begins[parts.first_bin[rank]] / sizeof(uint4) * sizeof(uint4),
                     end = memory.begins[parts.first_bin[rank + 1]];
      auto* out =
          reinterpret_cast<char*>(parts.entries[rank] + (parts.rank * parts.tiles + tile) * kMaxCountedTilePoints);
#pragma unroll 2
      for (uint32_t i = begin + threadIdx.x * static_cast<uint32_t>(sizeof(uint4)); i < end;
           i += kTileThreads * sizeof(uint4))
        *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(memory.sorted + i);
    }
  }
};

}  // namespace amdahl::sensor_cuda

// Kernels that merge counts by dividing the bins: counting this rank's bins, and writing the counts of the others.
#include "sensor/peers/cuda_count_division.h"
#include "sensor/voxels/cuda_voxel_packed.cuh"
#include "symmetric/cuda_symmetric.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;
using namespace symmetric_cuda;

constexpr int kThreads = 512;  // of take_counts
constexpr int kBlocksOfList = 8;

__device__ __forceinline__ OverflowCount* list(const DivisionLaunch& p, int rank, uint64_t merge) {
  return reinterpret_cast<OverflowCount*>(p.team.base[rank] + p.layout.lists) +
         static_cast<int64_t>(merge % 2) * (p.layout.capacity + 1);
}
/// Counts of a bin from another rank, in the memory of rank `at`.
__device__ __forceinline__ uint8_t* counts_of_bin(const DivisionLaunch& p, int at, uint32_t bin) {
  return reinterpret_cast<uint8_t*>(p.team.base[at] + p.layout.counts) + int64_t{bin} * p.layout.bin_voxels();
}

/// Counts are sent in units of the voxels that a warp processes at a time: one byte per voxel, or, if all counts are
/// below 16, packed with 4 bits per voxel in the first half of the unit. Each warp sends a byte per bin whose bits tell
/// which of its units are packed.
struct Units {
  static constexpr uint32_t kVoxels = 256, kWarps = packed_counters::kThreads / 32,
                            kRounds = packed_counters::kWords / kWarps / kVoxels;
  static_assert(2 * kRounds <= 8 && kWarps == kPackedBytesOfBin);
  /// Warp and bit of a voxel's unit.
  __device__ static uint32_t warp_of(uint32_t offset) { return offset % packed_counters::kWords / kVoxels % kWarps; }
  __device__ static uint32_t bit_of(uint32_t offset) {
    return offset % packed_counters::kWords / (kVoxels * kWarps) * 2 + offset / packed_counters::kWords;
  }
};
/// Bits of packed units in the memory of rank `at`, [bins, Units::kWarps].
__device__ __forceinline__ uint8_t* packed_of_bin(const DivisionLaunch& p, int at, uint32_t bin) {
  return reinterpret_cast<uint8_t*>(p.team.base[at] + p.layout.packed) + bin * Units::kWarps;
}

/// Writes a bin's counts to all other ranks and to this rank's grid.
struct DivisionWriter {
  const BinArgs& bins;
  const uint32_t* words;
  const DivisionLaunch& p;
  const ByteArgs& bytes;
  int32_t* grid;

  /// Calls send(rank) for every other rank; each rank begins with another destination.
  template <class Send>
  __device__ __forceinline__ void for_each_other(const Send& send) const {
    for (int rank = p.team.rank + 1; rank < p.team.size; ++rank) send(rank);
    for (int rank = 0; rank < p.team.rank; ++rank) send(rank);
  }
  __device__ __forceinline__ void tell_packed(uint32_t bin, uint32_t packed) const {
    if (threadIdx.x % 32 == 0)
      for_each_other([&](int rank) { packed_of_bin(p, rank, bin)[threadIdx.x / 32] = static_cast<uint8_t>(packed); });
  }
  __device__ __forceinline__ void write_bin(uint32_t bin) const {
    uint32_t all_packed = 0;
    packed_counters::for_each_eight(bins, bin, words, bytes, [&](uint32_t offset, uint32_t, uint2 eight, bool there) {
      const bool packed = !__any_sync(~0u, ((eight.x | eight.y) & 0xf0f0f0f0) != 0);
      if (packed) all_packed |= 1u << Units::bit_of(offset);
      if (!there) return;
      const uint32_t unit = offset / Units::kVoxels * Units::kVoxels, eights = threadIdx.x % 32;
      for_each_other([&](int rank) {
        uint8_t* to = counts_of_bin(p, rank, bin) + unit;
        if (packed)
          reinterpret_cast<uint32_t*>(to)[eights] = pack_word(eight.x) | pack_word(eight.y) << 16;
        else
          reinterpret_cast<uint2*>(to)[eights] = eight;
      });
    });
    tell_packed(bin, all_packed);
    packed_counters::write_numbers_of_bin(bins, bin, words, grid);
  }
  __device__ void leave_bin(uint32_t bin) const { tell_packed(bin, 0); }
  __device__ void write(uint32_t bin, uint32_t offset, uint32_t voxel, uint32_t count) const {
    grid[voxel] = static_cast<int32_t>(count);
    const auto byte = static_cast<uint8_t>(bytes.limit(count, voxel));
    for_each_other([&](int rank) { counts_of_bin(p, rank, bin)[offset] = byte; });
  }
};

/// Counts this rank's bins of the points of all ranks.
__global__ void __launch_bounds__(packed_counters::kThreads, 1)
    count_own_bins(BinArgs bins, const __grid_constant__ DivisionLaunch p, int32_t* grid) {
  extern __shared__ uint4 memory[];
  auto* words = reinterpret_cast<uint32_t*>(memory);
  wait_for_predecessor();
  let_successor_start();
  const uint64_t merge = this_round(p.team);
  if (!arrive_and_wait(p.team, kSorted, merge, blockIdx.x == 0)) {
    if (threadIdx.x == 0) set_broken(p.team);
    return;
  }
  const ByteArgs bytes{kMostOfByte, list(p, p.team.rank, merge), {}};
  packed_counters::count_all(
      bins, p.first_bin[p.team.rank], p.first_bin[p.team.rank + 1], gridDim.x, words, [] {},
      DivisionWriter{bins, words, p, bytes, grid});
}

/// Voxels of a bin per block.
constexpr uint32_t kSlice = 16384;
__host__ __device__ inline uint32_t slices_of_bin(const DivisionLayout& layout) {
  return (layout.bin_voxels() + kSlice - 1) / kSlice;
}

/// Writes the voxels of the other ranks' bins; one block per slice of a bin.
__global__ void __launch_bounds__(kThreads, 2)
    take_counts(BinArgs bins, const __grid_constant__ DivisionLaunch p, int32_t* grid) {
  constexpr uint32_t kWord = sizeof(uint32_t), kAhead = kSlice / kWord / kThreads;
  wait_for_predecessor();
  let_successor_start();
  const uint64_t merge = this_round(p.team);
  const bool complete = arrive_and_wait(p.team, kCounted, merge, blockIdx.x == 0);
  if (complete) {
    const uint32_t slices = slices_of_bin(p.layout), begin = p.first_bin[p.team.rank],
                   end = p.first_bin[p.team.rank + 1];
    uint32_t bin = blockIdx.x / slices;
    if (bin >= begin) bin += end - begin;
    const uint32_t first = blockIdx.x % slices * kSlice + threadIdx.x * kWord;
    const uint8_t* counts = counts_of_bin(p, p.team.rank, bin);
    const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
    const uint8_t* packed = packed_of_bin(p, p.team.rank, bin);
    const auto at = [&](uint32_t i) { return first + i * kThreads * kWord; };
    const auto there = [&](uint32_t i) { return bin < bins.num_bins() && at(i) < bins.bin_voxels(); };
    bool is_packed[kAhead];
    uint32_t words[kAhead];
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i)
      if (there(i)) is_packed[i] = packed[Units::warp_of(at(i))] >> Units::bit_of(at(i)) & 1;
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (!there(i)) continue;
      const uint8_t* unit = counts + at(i) / Units::kVoxels * Units::kVoxels;
      const uint32_t in_unit = at(i) % Units::kVoxels;
      words[i] = is_packed[i] ? __ldcs(reinterpret_cast<const uint16_t*>(unit + in_unit / 2))
                              : __ldcs(reinterpret_cast<const uint32_t*>(unit + in_unit));
    }
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i)
      if (there(i))
        write_bytes_as_numbers(is_packed[i] ? unpack_word(words[i]) : words[i], voxel_of(bins, bin, at(i)),
                               bins.num_voxels, aligned, grid);
    if (blockIdx.x == 0 && threadIdx.x == 0) list(p, p.team.rank, merge + 1)->voxel = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) end_round(p.team, merge, complete);
}

/// Adds the overflow lists of the other ranks; kBlocksOfList blocks per rank's list.
__global__ void __launch_bounds__(kThreads) add_lists(const __grid_constant__ DivisionLaunch p, int32_t* grid) {
  wait_for_predecessor();
  let_successor_start();
  const int rank = static_cast<int>(blockIdx.x) / kBlocksOfList;
  if (is_broken(p.team) || rank == p.team.rank) return;
  add_list(list(p, rank, this_round(p.team) - 1), blockIdx.x % kBlocksOfList, kBlocksOfList, grid);
}

}  // namespace

void launch_count_division(const SensorLaunch& launch, const DivisionLaunch& p, int32_t* grid) {
  char* own = p.team.base[p.team.rank];
  BinArgs bins{};
  bins.num_voxels = p.layout.num_voxels;
  bins.bin_bits = p.layout.bin_bits, bins.bin_chunks = p.layout.bin_chunks;
  bins.tile_points = kMaxTilePoints, bins.num_tiles = p.layout.tiles, bins.num_ranks = p.team.size;
  bins.tiles_of_rank = reinterpret_cast<const unsigned*>(own + p.layout.num_tiles);
  bins.overfull = reinterpret_cast<OverfullBins*>(own + p.layout.overfull);
  bins.entries = own + p.layout.entries;
  bins.table = reinterpret_cast<uint32_t*>(own + p.layout.tables);
  const uint32_t own_bins = p.first_bin[p.team.rank + 1] - p.first_bin[p.team.rank];
  const size_t shared = packed_counters::num_words(bins) * sizeof(uint32_t);
  allow_shared(launch, &count_own_bins, shared);
  launch_early(launch, std::min(own_bins, static_cast<uint32_t>(launch.num_sms)), packed_counters::kThreads, shared,
               &count_own_bins, "count_own_bins", bins, p, grid);
  const uint32_t slices = (bins.num_bins() - own_bins) * slices_of_bin(p.layout);
  launch_early(launch, std::max(slices, 1u), kThreads, 0, &take_counts, "take_counts", bins, p, grid);
  if (p.team.size > 1)
    launch_early(launch, static_cast<unsigned>(p.team.size * kBlocksOfList), kThreads, 0, &add_lists, "add_lists", p,
                 grid);
}

}  // namespace amdahl

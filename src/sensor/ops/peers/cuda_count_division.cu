// Merges counts of several GPUs by dividing the bins of the grid.
//
// Each rank sorts its points by bin into the memory of the ranks that count these bins (SortedParts). After a barrier
// it counts its bins, writes their voxels of its grid and sends the counts to all other ranks as bytes. After a second
// barrier it writes the voxels of the other bins. The links carry two bytes per point that another rank counts and one
// byte per voxel. Adding up parts (cuda_count_peers.cu) moves two bytes per voxel, and every rank processes all bins.
#include <iterator>

#include "sensor/ops/peers/cuda_peer_lists.cuh"
#include "sensor/ops/peers/cuda_peers.h"
#include "sensor/ops/place.h"
#include "sensor/ops/voxels/cuda_voxel_packed.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;
using namespace symmetric_cuda;

constexpr int kThreads = 512;  // of take_counts

/// The barriers of a merge, which is a round of the team: points are sorted; bins are counted.
///
/// No rank waits until memory is free. A rank sorts points only after it has completed the previous merge, so all ranks
/// have counted its previous points. It sends bytes only after all ranks have sorted, so they have completed the
/// previous merge and read its bytes. Overflow lists are read until a merge ends, so the next merge uses the list of
/// the other parity.
constexpr int kSorted = 0, kCounted = 1;

/// Largest count in a byte, and bytes per bin that tell which of its units are packed (4 bits per voxel).
constexpr int kMostOfByte = 255, kPackedBytesOfBin = 32;

/// Offsets in a rank's memory, in bytes, behind its TeamFlags.
struct DivisionLayout {
  int64_t num_voxels = 0;
  int bin_bits = 0;
  uint32_t bin_chunks = 0;
  int64_t tiles = 0;     // capacity of a rank
  int64_t capacity = 0;  // of an overflow list, without its first entry
  size_t num_tiles = 0;  // [ranks] unsigned, tiles of each rank's points
  size_t overfull = 0;   // OverfullBins
  size_t lists = 0;      // [2], overflow lists of this rank's voxels
  size_t tables = 0;     // see SortedParts
  size_t entries = 0;
  size_t packed = 0;  // [bins, kPackedBytesOfBin] u8
  size_t counts = 0;  // [bins, bin_voxels] u8, counts of other ranks
  size_t bytes = 0;

  constexpr uint32_t num_bins() const { return 1u << bin_bits; }
  constexpr uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
};

struct DivisionLaunch {
  TeamView team;
  DivisionLayout layout;
  uint32_t first_bin[kMaxMergePeers + 1];  // see SortedParts
};

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
  const ByteArgs bytes{kMostOfByte, overflow_list(p, p.team.rank, merge), {}};
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
    if (blockIdx.x == 0 && threadIdx.x == 0) overflow_list(p, p.team.rank, merge + 1)->voxel = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) end_round(p.team, merge, complete);
}

void launch_merge(const SensorLaunch& launch, const DivisionLaunch& p, int32_t* grid) {
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
  launch_early(launch, std::min(own_bins, static_cast<uint32_t>(launch.num_sms)), packed_counters::kThreads, shared,
               &count_own_bins, "count_own_bins", bins, p, grid);
  const uint32_t slices = (bins.num_bins() - own_bins) * slices_of_bin(p.layout);
  launch_early(launch, std::max(slices, 1u), kThreads, 0, &take_counts, "take_counts", bins, p, grid);
  if (p.team.size > 1) launch_add_peer_lists<false>(launch, p, grid);
}

DivisionLayout layout_of(const ByteCounts& counts) {
  const auto ranks = static_cast<size_t>(counts.world_size);
  DivisionLayout layout;
  layout.num_voxels = counts.num_voxels;
  layout.bin_bits = divided_bin_bits(counts.num_voxels, counts.world_size);
  layout.bin_chunks = chunks_of_bin(counts.num_voxels, layout.bin_bits);
  layout.tiles = most_sorted_tiles(counts.most_points_of_rank);
  layout.capacity = counts.most_points_of_rank * counts.world_size / (kMostOfByte + 1);
  layout.bytes = kTeamFlagBytes;
  layout.num_tiles = place(layout.bytes, ranks * sizeof(unsigned));
  const size_t tiles = ranks * static_cast<size_t>(layout.tiles);
  layout.overfull = place(layout.bytes, sizeof(OverfullBins));
  layout.lists = place(layout.bytes, 2 * (static_cast<size_t>(layout.capacity) + 1) * sizeof(OverflowCount));
  layout.tables = place(layout.bytes, tiles * layout.num_bins() * sizeof(uint32_t));
  layout.entries = place(layout.bytes, tiles * kMaxTilePoints * sizeof(uint16_t));
  layout.packed = place(layout.bytes, size_t{layout.num_bins()} * kPackedBytesOfBin);
  layout.counts = place(layout.bytes, size_t{layout.num_bins()} * layout.bin_voxels());
  return layout;
}

class CudaCountDivision final : public CountPeers {
 public:
  CudaCountDivision(Device& device, const ChipLimits& limits, const SymmetricMemory& memory, const ByteCounts& counts)
      : limits_(limits),
        team_(CudaTeam::join(device, memory, "a merge of counts")),
        ranks_{team_->view(), layout_of(counts), {}} {
    for (int r = 0; r <= ranks_.team.size; ++r)
      ranks_.first_bin[r] = first_bin_of(r, ranks_.team.size, ranks_.layout.num_bins());
  }

  void aim(VoxelizeProblem& part) const override {
    SortedParts& to = part.sorted_parts;
    const TeamView& team = ranks_.team;
    to.rank = team.rank, to.num_ranks = team.size, to.tiles = ranks_.layout.tiles;
    to.overfull = reinterpret_cast<OverfullBins*>(team.base[team.rank] + ranks_.layout.overfull);
    std::copy(std::begin(ranks_.first_bin), std::end(ranks_.first_bin), std::begin(to.first_bin));
    for (int r = 0; r < team.size; ++r) {
      to.entries[r] = reinterpret_cast<uint16_t*>(team.base[r] + ranks_.layout.entries);
      to.tables[r] = reinterpret_cast<uint32_t*>(team.base[r] + ranks_.layout.tables);
      to.num_tiles[r] = reinterpret_cast<unsigned*>(team.base[r] + ranks_.layout.num_tiles);
    }
  }

  void merge(Stream& stream, int32_t* grid) override { launch_merge(launch_of(*team_, stream, limits_), ranks_, grid); }

 private:
  ChipLimits limits_;
  std::shared_ptr<CudaTeam> team_;
  DivisionLaunch ranks_;
};

}  // namespace

bool cuda_divides_counts(const ChipLimits& limits, int64_t num_voxels) {
  return limits.most_shared >= kPackedShared && divides_bins(num_voxels);
}

size_t cuda_division_bytes(const ByteCounts& counts) { return layout_of(counts).bytes; }

std::unique_ptr<CountPeers> make_cuda_count_division(Device& device, const ChipLimits& limits,
                                                     const SymmetricMemory& memory, const ByteCounts& counts) {
  return std::make_unique<CudaCountDivision>(device, limits, memory, counts);
}

}  // namespace amdahl

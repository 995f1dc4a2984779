#include "sensor/peers/cuda_count_division.h"

#include <algorithm>
#include <iterator>

#include "sensor/place.h"

namespace amdahl {
namespace {

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

  void merge(Stream& stream, int32_t* grid) override {
    launch_count_division(launch_of(*team_, stream, limits_), ranks_, grid);
  }

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

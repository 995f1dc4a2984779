#include "sensor/peers/cuda_count_peers.h"

#include <algorithm>

#include "sensor/place.h"

namespace amdahl {
namespace {

class CudaCountPeers final : public CountPeers {
 public:
  CudaCountPeers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory, const ByteCounts& counts)
      : limits_(limits),
        counts_(counts),
        team_(CudaTeam::join(device, memory, "a merge of counts")),
        peers_{team_->view(), count_layout(counts), counts.num_voxels} {}

  void aim(VoxelizeProblem& part) const override {
    const CountLayout& layout = peers_.layout;
    const TeamView& team = peers_.team;
    part.most_in_byte = counts_.most();
    part.overflow = reinterpret_cast<OverflowCount*>(team.base[team.rank] + layout.own_list);
    if (team.size == 1) {
      part.output = team.base[0] + layout.inboxes;
      return;
    }
    part.byte_parts.voxels = layout.part_voxels;
    for (int r = 0; r < team.size; ++r)
      part.byte_parts.part[r] =
          reinterpret_cast<uint8_t*>(team.base[r] + layout.inboxes) + team.rank * layout.part_voxels;
  }

  void merge(Stream& stream, int32_t* grid) override {
    launch_merge_peer_counts(launch_of(*team_, stream, limits_), peers_, grid);
  }

 private:
  ChipLimits limits_;
  ByteCounts counts_;
  std::shared_ptr<CudaTeam> team_;
  CountLaunch peers_;
};

}  // namespace

CountLayout count_layout(const ByteCounts& counts) {
  constexpr int64_t kStep = 64;  // voxels of a chunk, and more than a vector's
  const auto ranks = static_cast<size_t>(counts.world_size);
  CountLayout layout;
  layout.part_voxels = std::max<int64_t>((counts.num_voxels + counts.world_size - 1) / counts.world_size, 1);
  layout.part_voxels = (layout.part_voxels + kStep - 1) / kStep * kStep;
  layout.slices = (layout.part_voxels + CountLayout::kSliceVoxels - 1) / CountLayout::kSliceVoxels;
  layout.capacity = counts.capacity;
  layout.bytes = kTeamFlagBytes;
  layout.own_list = place(layout.bytes, layout.list_bytes());
  layout.lists = place(layout.bytes, 2 * layout.list_bytes());
  layout.summed = place(layout.bytes, ranks * static_cast<size_t>(layout.slices) * sizeof(Signal));
  layout.inboxes = place(layout.bytes, ranks * static_cast<size_t>(layout.part_voxels));
  layout.sums = place(layout.bytes, ranks * static_cast<size_t>(layout.part_voxels));
  return layout;
}

size_t cuda_count_peer_bytes(const ByteCounts& counts) { return count_layout(counts).bytes; }

std::unique_ptr<CountPeers> make_cuda_count_peers(Device& device, const ChipLimits& limits,
                                                  const SymmetricMemory& memory, const ByteCounts& counts) {
  return std::make_unique<CudaCountPeers>(device, limits, memory, counts);
}

}  // namespace amdahl

#include "sensor/peers/cuda_count_peers.h"

#include <algorithm>

#include "sensor/peers/cuda_peer_side.h"
#include "sensor/place.h"

namespace amdahl {
namespace {

class CudaCountPeers final : public CountPeers {
 public:
  CudaCountPeers(Device& device, const ChipLimits& limits, const CountGroup& group)
      : group_(group), side_(device, limits, group.timeout_seconds, "a merge of counts") {
    side_.introduce(group_, peers_);
    peers_.layout = count_layout(group.layout);
    peers_.num_voxels = group.layout.num_voxels;
  }

  void aim(VoxelizeProblem& part) const override {
    const CountLayout& layout = peers_.layout;
    part.most_in_byte = group_.layout.most();
    part.beyond = reinterpret_cast<CountBeyond*>(peers_.shared[peers_.rank] + layout.own_list);
    if (peers_.num_ranks == 1) {
      part.output = peers_.shared[0] + layout.inboxes;
      return;
    }
    part.byte_parts.voxels = layout.part_voxels;
    for (int r = 0; r < peers_.num_ranks; ++r)
      part.byte_parts.part[r] =
          reinterpret_cast<uint8_t*>(peers_.shared[r] + layout.inboxes) + peers_.rank * layout.part_voxels;
  }

  void merge(Stream& stream, int32_t* grid) override { launch_merge_peer_counts(side_.on(stream), peers_, grid); }

 private:
  CountGroup group_;  // before the side, whose end the others' memory must outlive
  CudaPeerSide side_;
  CountLaunch peers_{};
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
  layout.bytes = sizeof(CountInbox);
  layout.own_list = place(layout.bytes, layout.list_bytes());
  layout.lists = place(layout.bytes, 2 * layout.list_bytes());
  layout.summed = place(layout.bytes, ranks * static_cast<size_t>(layout.slices) * sizeof(uint64_t));
  layout.inboxes = place(layout.bytes, ranks * static_cast<size_t>(layout.part_voxels));
  layout.sums = place(layout.bytes, ranks * static_cast<size_t>(layout.part_voxels));
  return layout;
}

size_t cuda_count_peer_bytes(const ByteCounts& counts) { return count_layout(counts).bytes; }

std::unique_ptr<CountPeers> make_cuda_count_peers(Device& device, const ChipLimits& limits, const CountGroup& group) {
  return std::make_unique<CudaCountPeers>(device, limits, group);
}

}  // namespace amdahl

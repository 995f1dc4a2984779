#include "sensor/peers/cuda_mask_peers.h"

#include "sensor/peers/cuda_peer_side.h"

namespace amdahl {
namespace {

class CudaMaskPeers final : public MaskPeers {
 public:
  CudaMaskPeers(Device& device, const ChipLimits& limits, const MaskGroup& group)
      : group_(group), side_(device, limits, group.timeout_seconds, "a merge of bit masks") {
    side_.introduce(group_, peers_);
    peers_.num_voxels = group.num_voxels;
  }

  void merge(Stream& stream, const uint32_t* mask, int32_t* grid, uint32_t* merged) override {
    launch_merge_peer_masks(side_.on(stream), peers_, mask, grid, merged);
  }

 private:
  MaskGroup group_;  // before the side, whose end the others' memory must outlive
  CudaPeerSide side_;
  MaskLaunch peers_{};
};

}  // namespace

size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size) {
  constexpr size_t kParities = 2, kPacketBytes = 16;
  return sizeof(MaskInbox) +
         kParities * static_cast<size_t>(world_size) * static_cast<size_t>(num_packets(num_voxels)) * kPacketBytes;
}

std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const MaskGroup& group) {
  return std::make_unique<CudaMaskPeers>(device, limits, group);
}

}  // namespace amdahl

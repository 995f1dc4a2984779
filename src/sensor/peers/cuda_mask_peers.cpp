#include "sensor/peers/cuda_mask_peers.h"

namespace amdahl {
namespace {

class CudaMaskPeers final : public MaskPeers {
 public:
  CudaMaskPeers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory, int64_t num_voxels)
      : limits_(limits),
        team_(CudaTeam::join(device, memory, "a merge of bit masks")),
        peers_{team_->view(), num_voxels} {}

  void merge(Stream& stream, const uint32_t* mask, int32_t* grid, uint32_t* merged) override {
    launch_merge_peer_masks(launch_of(*team_, stream, limits_), peers_, mask, grid, merged);
  }

 private:
  ChipLimits limits_;
  std::shared_ptr<CudaTeam> team_;
  MaskLaunch peers_;
};

}  // namespace

size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size) {
  constexpr size_t kParities = 2, kPacketBytes = 16;
  return kTeamFlagBytes +
         kParities * static_cast<size_t>(world_size) * static_cast<size_t>(num_packets(num_voxels)) * kPacketBytes;
}

std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory,
                                                int64_t num_voxels) {
  return std::make_unique<CudaMaskPeers>(device, limits, memory, num_voxels);
}

}  // namespace amdahl

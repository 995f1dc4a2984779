// Merges of bit masks through peer memory: declarations shared by kernel and host code.
#pragma once

#include "sensor/peers/cuda_team_launch.h"

namespace amdahl {

/// The memory of each rank has TeamFlags and then the inboxes: for each parity of merges the masks of all ranks.
///
/// A merge is a round of the team without a barrier. A rank writes its mask into the inboxes of the others in packets
/// of 16 bytes that contain the round's number, so that data and signal arrive together without a fence. No rank waits
/// until inboxes are free: the next merge uses the other parity, and the merge after that can reuse the first one,
/// because a rank completes a merge only after all masks have arrived.
inline constexpr int kPacketWords = 3;  // words of the mask per packet; the fourth word is the round's number

struct MaskLaunch {
  TeamView team;
  int64_t num_voxels;
};

/// Packets of a mask.
constexpr int64_t num_packets(int64_t num_voxels) { return ((num_voxels + 31) / 32 + kPacketWords - 1) / kPacketWords; }
size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size);
void launch_merge_peer_masks(const SensorLaunch& launch, const MaskLaunch& peers, const uint32_t* mask, int32_t* grid,
                             uint32_t* merged);
std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory,
                                                int64_t num_voxels);

}  // namespace amdahl

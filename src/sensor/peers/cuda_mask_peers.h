// Merging bit masks in peers' memory: what the kernel and its host side share.
#pragma once

#include "sensor/peers/cuda_team_launch.h"

namespace amdahl {

/// Each rank's memory has TeamFlags and then the inboxes: for each parity of merges, the mask of each rank.
///
/// A merge is a round of the team without a barrier. A rank writes its mask into the others' inboxes in packets of 16
/// bytes, each with the round's number, so that data and signal arrive together and no fence is needed. No rank waits
/// for another to have read: the next merge writes the other parity, and that of the one after is free, because a rank
/// ends a merge only once the masks of all have arrived.
inline constexpr int kPacketWords = 3;  // of the mask; the fourth is the number

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

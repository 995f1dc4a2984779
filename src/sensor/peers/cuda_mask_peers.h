// Merging bit masks in peers' memory: what the kernel and its host side share.
#pragma once

#include "device/cuda_peer_watch.h"
#include "sensor/cuda_kernels.h"

namespace amdahl {

/// At the front of what each rank shares, all zero at first; replays of a graph go on counting. Behind it are the
/// inboxes: of each parity of merges, the mask of each rank.
///
/// A rank writes its mask into the others' inboxes in packets of 16 bytes, each with the merge's number, so that data
/// and flag come together and nothing has to be fenced. No rank waits for another to have read: the next merge writes
/// the other parity, and that of the one after is free, because a rank ends a merge only once all have come to it.
struct MaskInbox {
  uint64_t ended;            // merges of this rank that have ended
  unsigned finished_blocks;  // of the running merge
  unsigned broken;           // a wait was given up: later merges do nothing
};

inline constexpr int kPacketWords = 3;  // of the mask; the fourth is the number

struct MaskLaunch {
  MaskInbox* shared[kMaxMergePeers];  // the packets are behind
  int rank, num_ranks;
  int64_t num_voxels;
  PeerReport* report;
  uint64_t timeout_ns;
};

/// Packets of a mask.
constexpr int64_t num_packets(int64_t num_voxels) { return ((num_voxels + 31) / 32 + kPacketWords - 1) / kPacketWords; }
size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size);
void launch_merge_peer_masks(const SensorLaunch& launch, const MaskLaunch& peers, const uint32_t* mask, int32_t* grid,
                             uint32_t* merged);
std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const MaskGroup& group);

}  // namespace amdahl

// Merging bit masks in peers' memory: what the kernel and its host side share.
#pragma once

#include "device/cuda_peer_watch.h"
#include "sensor/cuda_kernels.h"

namespace amdahl {

/// In each rank's device memory, all zero at first. A flag holds the number of the last merge that its writer has
/// entered or left; replays of a graph go on counting.
struct MaskFlags {
  uint64_t entered[kMaxMaskPeers];  // by writing rank
  uint64_t left[kMaxMaskPeers];     // by writing rank
  uint64_t ended;                   // merges of this rank that have ended
  unsigned finished_blocks;         // of the running merge
  unsigned broken;                  // a wait was given up: later merges do nothing
};

struct MaskLaunch {
  const uint32_t* masks[kMaxMaskPeers];
  MaskFlags* flags[kMaxMaskPeers];
  int rank, num_ranks;
  PeerReport* report;
  uint64_t timeout_ns;
};

void launch_merge_peer_masks(const SensorLaunch& launch, const MaskLaunch& peers, int64_t num_voxels, int32_t* grid,
                             uint32_t* merged);
std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const MaskGroup& group);

}  // namespace amdahl

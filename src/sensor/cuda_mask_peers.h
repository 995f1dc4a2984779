// Merging bit masks in peers' memory: what the kernel and its host side share.
#pragma once

#include "device/cuda_peer_watch.h"
#include "sensor/cuda_kernels.h"

namespace amdahl {

inline constexpr int kMaxMaskPieces = 1024;

/// At the front of what each rank shares, all zero at first; replays of a graph go on counting. Behind it are the
/// inboxes: of each parity of merges, the mask of each rank.
///
/// A rank writes its mask into the others' inboxes, piece by piece, with the merge's number behind each piece. No rank
/// waits for another to have read: the next merge writes the other parity, and that of the one after is free, because a
/// rank comes to a merge only once all have come to the one before.
struct MaskFlags {
  uint64_t sent[kMaxMaskPeers][kMaxMaskPieces];  // by writing rank: last merge whose piece is here
  uint64_t ended;                                // merges of this rank that have ended
  unsigned finished_pieces;                      // of the running merge
  unsigned broken;                               // a wait was given up: later merges do nothing
};

struct MaskLaunch {
  MaskFlags* shared[kMaxMaskPeers];  // the inboxes are behind
  int rank, num_ranks;
  int64_t num_voxels, piece_words, mask_words;  // a piece is a block's; a mask in its inbox is whole pieces
  PeerReport* report;
  uint64_t timeout_ns;
};

/// Sets pieces and masks of a merge of that many voxels.
void plan_mask_pieces(MaskLaunch& launch, int64_t num_voxels);
size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size);
void launch_merge_peer_masks(const SensorLaunch& launch, const MaskLaunch& peers, const uint32_t* mask, int32_t* grid,
                             uint32_t* merged);
std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const MaskGroup& group);

}  // namespace amdahl

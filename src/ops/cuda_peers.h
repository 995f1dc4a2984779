// Peer updates on CUDA: what the kernel and its host side share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "ops/cuda_kernels.h"
#include "ops/peer_update.h"

namespace amdahl {

/// In each rank's device memory, all zero at first. A flag holds the number of the last update that its writer has got
/// so far in; every rank counts its own updates, and replays of a graph go on counting.
struct PeerFlags {
  static constexpr int kMaxBlocks = 256;
  uint64_t arrived[kMaxBlocks][kMaxPeers];  // by block and writing rank: the block's gradients are in the inbox
  uint64_t left[kMaxPeers];                 // by writing rank
  uint64_t ended;                           // updates of this rank that have ended
  unsigned finished_blocks;                 // of the running update
  unsigned broken;                          // a wait was given up: later updates do nothing
};

/// In host memory that this rank's kernels reach.
struct PeerReport {
  unsigned give_up;       // set by the host: kernels end their waits
  unsigned missing_rank;  // set by the device: rank + 1 of one that did not come in time
};

struct PeerLaunch {
  float* params[kMaxPeers];
  float* grads[kMaxPeers];
  float* inbox[kMaxPeers];
  PeerFlags* flags[kMaxPeers];
  int64_t inbox_stride;
  int rank, num_ranks, num_processors;
  PeerReport* report;
  uint64_t timeout_ns;
};

/// Enqueues one update.
void launch_peer_adam(const KernelLaunch& launch, const PeerLaunch& peers, const PeerAdam& update);

std::unique_ptr<PeerUpdater> make_cuda_peer_updater(Device& device, const PeerGroup& group);

}  // namespace amdahl

// Peer updates on CUDA: what the kernel and its host side share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "device/cuda_peer_watch.h"
#include "ops/cuda_kernels.h"
#include "ops/peer_update.h"

namespace amdahl {

/// In each rank's device memory, all zero at first. A flag holds the number of the last update that its writer has
/// entered or left; the counts are per rank, and replays of a graph go on counting.
struct PeerFlags {
  uint64_t entered[kMaxPeers];  // by writing rank
  uint64_t left[kMaxPeers];     // by writing rank
  uint64_t ended;               // updates of this rank that have ended
  unsigned finished_blocks;     // of the running update
  unsigned broken;              // a wait was given up: later updates do nothing
};

struct PeerLaunch {
  float* params[kMaxPeers];
  float* grads[kMaxPeers];
  PeerFlags* flags[kMaxPeers];
  int rank, num_ranks;
  PeerReport* report;
  uint64_t timeout_ns;
};

/// Enqueues one update.
void launch_peer_adam(const KernelLaunch& launch, const PeerLaunch& peers, const PeerAdam& update);

std::unique_ptr<PeerUpdater> make_cuda_peer_updater(Device& device, const PeerGroup& group);

}  // namespace amdahl

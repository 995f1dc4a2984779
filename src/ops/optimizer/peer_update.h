// Parameter updates across devices whose kernels can access each other's memory: one kernel sums the gradients of all
// ranks, applies the optimizer to this rank's part and writes the new parameters to all ranks.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "ops/optimizer/adam_step.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Default number of blocks of an update that runs concurrently with GEMMs; each block takes one SM from them. 16
/// blocks reach most of the link bandwidth; with more, the GEMMs lose more than the update gains (measured on two and
/// four H200).
inline constexpr int kBlocksBesideWork = 16;

/// What every rank of a team exposes to the others: parameters and gradients of the whole layout, and the flags that
/// order updates.
struct PeerMemory {
  SymmetricMemory params, grads;
  SymmetricMemory flags;  // kTeamFlagBytes, zeroed
};

/// One update by one rank. Offsets are floats of the layout and multiples of 4.
struct PeerAdam {
  int64_t begin = 0, end = 0;  // this rank's part; may be empty
  int64_t front_end = 0;       // summed gradients of [begin, front_end) are written to every rank
  AdamStep adam = {};          // of [begin, end)
  bool last = true;            // the kernel ends only when all ranks' updates have ended: the last one of a step
  bool alone = true;           // no other work runs on the device meanwhile
  int num_blocks = 0;          // of the kernel, one per SM; 0: all SMs when `alone`, else kBlocksBesideWork
};

/// All ranks enqueue the same updates in the same order. An update starts when every rank has reached it, and reads the
/// gradients and writes the parameters of all ranks. A wait longer than the timeout ends the update; the stream's
/// synchronize then throws Error{rank_hung} that names the missing ranks.
class PeerUpdater {
 public:
  virtual ~PeerUpdater() = default;
  virtual void adam(Stream& stream, const PeerAdam& update) = 0;
};

/// Allocates host memory: no rank's update may be running.
std::unique_ptr<PeerUpdater> make_cuda_peer_updater(Device& device, const PeerMemory& memory);

}  // namespace amdahl

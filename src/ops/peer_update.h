// Updating parameters across devices whose kernels reach each other's memory: one kernel sums the gradients of all
// ranks, steps the optimizer on this rank's part and writes the new parameters to everybody.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "ops/adam_step.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Blocks of an update beside products, each of which takes a multiprocessor from them; 0 asked for means these. Most
/// of what the links carry; with more, the products lose more than the update gains (measured on two and four H200).
inline constexpr int kBlocksBesideWork = 16;

/// What every rank of a team lets the others reach: the whole layout, and the flags that order updates.
struct PeerMemory {
  SymmetricMemory params, grads;
  SymmetricMemory flags;  // kTeamFlagBytes, zeroed
};

/// One update by one rank. Offsets are floats of the layout and multiples of 4.
struct PeerAdam {
  int64_t begin = 0, end = 0;  // this rank's part; may be empty
  int64_t front_end = 0;       // floats before it are needed by all: their summed gradients go to every rank
  AdamStep adam = {};          // of [begin, end)
  bool last = true;            // ends only when every rank's update has ended, so that a step can follow
  bool alone = true;           // no other work of the device runs beside it
  int num_blocks = 0;          // of the kernel, each as good as one multiprocessor; 0: chosen here
};

/// All ranks enqueue the same updates in the same order. An update starts when every rank has reached it, and reads the
/// gradients and writes the parameters of all ranks. A wait that outlasts the timeout ends the update; the stream's
/// synchronize then throws Error{rank_hung} that names who was missing.
class PeerUpdater {
 public:
  virtual ~PeerUpdater() = default;
  virtual void adam(Stream& stream, const PeerAdam& update) = 0;
};

/// Allocates host memory: no rank's update may run meanwhile.
std::unique_ptr<PeerUpdater> make_cuda_peer_updater(Device& device, const PeerMemory& memory);

}  // namespace amdahl

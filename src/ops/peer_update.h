// Updating parameters across devices whose kernels reach each other's memory: one kernel sums the gradients of all
// ranks, steps the optimizer on this rank's part and writes the new parameters to everybody.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "ops/adam_step.h"

namespace amdahl {

inline constexpr int kMaxPeers = 16;
/// Blocks of an update beside products, each of which takes a multiprocessor from them; 0 asked for means these. Most
/// of what the links carry; with more, the products lose more than the update gains (measured on two and four H200).
inline constexpr int kBlocksBesideWork = 16;

/// What a rank lets the others reach. Shared, so that it lives until the last rank's kernels are done with it.
struct PeerMemory {
  std::shared_ptr<Buffer> params, grads;  // the whole layout
  std::shared_ptr<Buffer> flags;          // Ops::peer_flag_bytes(), zeroed before the others hear of it
};

struct PeerGroup {
  int rank = 0;
  std::vector<PeerMemory> ranks;  // in rank order, this rank's own among them
  double timeout_seconds = 60;    // of a kernel's wait for another rank
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

}  // namespace amdahl

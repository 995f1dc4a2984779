// Updating parameters across devices whose kernels reach each other's memory: one kernel sends every rank its part of
// this rank's gradients, sums what comes in for this rank's part, steps the optimizer on it and sends the parameters to
// everybody. Ranks only ever write to each other: on NVLink that moves more bytes a second than reading does.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "ops/adam_step.h"

namespace amdahl {

inline constexpr int kMaxPeers = 16;

/// What a rank lets the others reach. Shared, so that it lives until the last rank's kernels are done with it.
struct PeerMemory {
  std::shared_ptr<Buffer> params, grads;  // the whole layout
  std::shared_ptr<Buffer> inbox;  // gradients from the others: inbox_stride floats for each of them, in rank order
  std::shared_ptr<Buffer> flags;  // Ops::peer_flag_bytes(), zeroed before the others hear of it
};

struct PeerGroup {
  int rank = 0;
  std::vector<PeerMemory> ranks;  // in rank order, this rank's own among them
  int64_t inbox_stride = 0;       // floats
  int num_processors = 1;         // of the device with the fewest: every rank's kernel has the same blocks
  double timeout_seconds = 60;    // of a kernel's wait for another rank
};

/// One update by all ranks. Offsets are floats of the layout and multiples of 4; all but `adam` is the same on every
/// rank.
struct PeerAdam {
  std::array<int64_t, kMaxPeers + 1> bounds =
      {};                   // rank r's part is [bounds[r], bounds[r + 1]), the first no shorter than others
  int64_t inbox_begin = 0;  // of this update in every inbox; those of one step lie apart
  int64_t front_end = 0;    // floats before it are needed by all: their summed gradients go to every rank
  int64_t skip_end = 0;     // floats before it are no parameters
  AdamStep adam = {};       // of this rank's part without what is skipped
  bool last = true;         // of a step: ends only when every rank's update has ended, so that another step can follow
  bool alone = true;        // no other work of the device runs beside it
  int num_blocks = 0;       // of the kernel, each as good as one multiprocessor; 0: chosen here
};

/// All ranks enqueue the same updates in the same order. An update changes a rank's gradients and parameters
/// only after that rank has reached it. A wait that outlasts the timeout ends the update; the stream's
/// synchronize then throws Error{rank_hung} that names who was missing.
class PeerUpdater {
 public:
  virtual ~PeerUpdater() = default;
  virtual void adam(Stream& stream, const PeerAdam& update) = 0;
};

}  // namespace amdahl

// Measures collectives over a sweep of sizes: correctness, time per call, bandwidth.
#pragma once

#include <functional>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "amdahl/tensor.h"
#include "comm/collective_data.h"
#include "measure/fleet.h"
#include "measure/sampling/call_queue.h"

namespace amdahl {

struct SweepSettings {
  const CollectiveRow* row = nullptr;
  DType type = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int devices = 2;
  std::vector<int64_t> sizes;  // bytes of the larger buffer, ascending; rounded down to whole elements per rank
  int iterations = 20, warmup = 5;
  bool check = true;
  int graph = 0;
  Registration registration = Registration::none;  // of the buffers
  uint64_t seed = 42;
  double timeout_seconds = 60;
  double link_gbps = 0;  // bandwidth of a device's links in one direction; 0: unknown
  double peak_gbps = 0;  // a bus bandwidth above this is a measurement error; at least link_gbps. 0: unknown
  MakeTransfer make_transfer = nullptr;  // for virtual devices: calls start when the whole loop is enqueued (CallQueue)
  Provenance provenance;
};

/// Sizes from `minimum` to `maximum`: adding `step` when it is above 0, else multiplying by `factor`.
std::vector<int64_t> sweep_sizes(int64_t minimum, int64_t maximum, int64_t step, int factor);

/// One Record of kind "collective" per size and placement, out of place before in place, handed to `sink` on the root
/// process as it completes. A size that does not fit into memory gives a failed Record and ends the sweep. Axes:
/// collective, dtype, op (of reductions), root (of rooted ones), devices, bytes, count (elements of the call),
/// in_place, launch, transport ("nccl", "nccl registered", "gloo"). Series: time (us, mean over a loop of back-to-back
/// calls, as in nccl-tests), call_time (us, one sample per call of a second loop with an event after every call, on the
/// slowest rank; not samples of `time`), algbw and busbw (GB/s, from `time`), peak and link_limit (GB/s, when known; a
/// peak above link_limit is that of in-switch reduction), wrong (elements, when checked).
void run_sweep(Fleet& fleet, const SweepSettings& settings, const std::function<void(const Record&)>& sink,
               Observer& observer);

/// Number of Records that run_sweep emits, equal to the pieces of work that it reports to its observer.
int count_pieces(const SweepSettings& settings);

}  // namespace amdahl

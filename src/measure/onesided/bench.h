// Measures one-sided operations, and the two-sided ones that they compete with, over sizes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amdahl/fabric.h"
#include "measure/fleet.h"
#include "measure/onesided/operations.h"
#include "measure/sampling/call_queue.h"

namespace amdahl {

struct OneSidedSettings {
  std::vector<const OneSidedOperation*> operations;
  std::vector<int64_t> sizes;
  int devices = 2;
  std::string ranks;      // "threads", "processes", "partitions"
  bool two_sided = true;  // the fleet's communicator moves data; otherwise only one-sided operations run
  int samples = 20;
  double least_sample_us = 1000;
  std::vector<int> threads{256}, blocks{1};
  std::vector<GemmSizes> gemm_sizes;
  std::vector<int> gemm_tiles{1, 4};
  std::vector<NormSizes> norm_sizes;
  uint64_t seed = 42;
  double timeout_seconds = 60;
  MakeTransfer make_transfer = nullptr;  // as in SweepSettings
  Provenance provenance;
};

/// Sizes: powers of 4 between `minimum` and `maximum`, and both.
std::vector<int64_t> one_sided_sizes(int64_t minimum, int64_t maximum);

/// One Record of kind "onesided" per operation, method, size and kernel shape, handed to `sink` by the thread of rank 0
/// as it completes. Axes: operation, transport ("one-sided", "symmetric ll", "gloo", ...), bytes, devices, ranks and,
/// on GPUs, threads and blocks. Series: latency (us per transfer; of put_signal, signal and send_recv half a round
/// trip, each sample a mean over back-to-back repetitions on the slowest rank), bandwidth (GB/s, bytes per latency),
/// wrong (bytes).
void run_onesided_cells(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer);

}  // namespace amdahl

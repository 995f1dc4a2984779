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

/// For each shape and GEMM one Record of kind "onesided-gemm" per method. Axes: gemm ("all_gather_gemm": column
/// parallel, "gemm_reduce_scatter": row parallel), transport (the communicator, "symmetric", "one-sided" for tiles that
/// are copied, "one-sided direct" for tiles that the GEMM writes to their owner), m, n, k, tiles, type, devices, ranks.
/// Series: time (us per call on the slowest rank, a mean over back-to-back calls per sample), rate (GFLOP/s over all
/// ranks), wrong (rows of the result, each checked by an exact linear combination of its elements). Shapes that the
/// number of ranks does not divide: Error{usage}.
void run_onesided_gemms(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer);

/// Shapes that are measured when none is named.
std::vector<GemmSizes> default_gemm_sizes(bool on_gpus);

/// For each shape one Record of kind "onesided-norm" per method. Axes: transport (the communicator of an all-reduce
/// that a normalisation follows, "symmetric", "one-sided": both in one kernel), rows, width, type (of what is added up;
/// the residual stream is f32), launch ("graph" on GPUs, "eager" on CPUs), devices, ranks. Series: time (us per call on
/// the slowest rank, a mean over back-to-back calls per sample), wrong (rows of the result). Error{usage} for widths
/// that the one kernel does not take.
void run_onesided_norms(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer);

/// The kernel sums the columns of a matrix of f32, kLocalityPasses times, on rank 0; the other ranks are idle. One
/// Record of kind "onesided-locality" per size (0.25, 1, 16 and 64 MiB, as far as settings.sizes allows), placement
/// ("local": memory of rank 0; "peer": of rank 1; "host": on GPUs pinned host memory, on CPUs a file mapped into
/// memory) and method ("in place"; "copied first": once to rank 0's memory, included in the time). Series: time (us for
/// all passes), bandwidth (GB/s: bytes of all passes per time), wrong (columns).
void run_onesided_locality(Fleet& fleet, const OneSidedSettings& settings,
                           const std::function<void(const Record&)>& sink, Observer& observer);

inline constexpr int kLocalityPasses = 8;

}  // namespace amdahl

// GEMMs of tensor parallelism: a collective beside the whole GEMM, against tiles that are pushed as they are finished.
#pragma once

#include <functional>

#include "measure/onesided/bench.h"

namespace amdahl {

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

}  // namespace amdahl

// All-reduce and layer normalisation, as after a row-parallel layer: two operations, against one kernel.
#pragma once

#include <functional>

#include "measure/onesided/bench.h"

namespace amdahl {

/// For each shape one Record of kind "onesided-norm" per method. Axes: transport (the communicator of an all-reduce
/// that a normalisation follows, "symmetric", "one-sided": both in one kernel), rows, width, type (of what is added up;
/// the residual stream is f32), launch ("graph" on GPUs, "eager" on CPUs), devices, ranks. Series: time (us per call on
/// the slowest rank, a mean over back-to-back calls per sample), wrong (rows of the result). Error{usage} for widths
/// that the one kernel does not take.
void run_onesided_norms(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer);

}  // namespace amdahl

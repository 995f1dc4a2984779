// A kernel that reads data in its own, another rank's and host memory: where it is, or after a copy.
#pragma once

#include <functional>

#include "measure/onesided/bench.h"

namespace amdahl {

/// The kernel sums the columns of a matrix of f32, kLocalityPasses times, on rank 0; the other ranks are idle. One
/// Record of kind "onesided-locality" per size (0.25, 1, 16 and 64 MiB, as far as settings.sizes allows), placement
/// ("local": memory of rank 0; "peer": of rank 1; "host": on GPUs pinned host memory, on CPUs a file mapped into
/// memory) and method ("in place"; "copied first": once to rank 0's memory, included in the time). Series: time (us for
/// all passes), bandwidth (GB/s: bytes of all passes per time), wrong (columns).
void run_onesided_locality(Fleet& fleet, const OneSidedSettings& settings,
                           const std::function<void(const Record&)>& sink, Observer& observer);

inline constexpr int kLocalityPasses = 8;

}  // namespace amdahl

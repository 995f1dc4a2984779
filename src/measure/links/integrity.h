// Verifies that copies arrive unchanged: every ordered pair of devices, every transfer method, every pattern, unaligned
// sizes and addresses, alone and while other copies run.
#pragma once

#include <functional>

#include "measure/links/tests.h"

namespace amdahl {

/// One Record of kind "integrity" per ordered pair and transfer method: axes source, destination, way ("engine read",
/// "engine write", "kernel read", "kernel write", "host staged"), traffic; series transfers, bytes, and bad_bytes,
/// first_offset when any differ, summed over patterns and shapes. Status failed names the pattern, offset and kind of
/// the first fault.
void run_integrity(LinkBench& bench, const LinkRun& run, const std::function<void(const Record&)>& sink,
                   Observer& observer);

/// Tests the verification by fault injection: `count` copies, each then damaged at one random place (a flipped bit, a
/// run of zeroed bytes, or restored old content). One Record of kind "integrity-proof" with series injected and found;
/// a fault counts as found when the number of bad bytes, the first offset and the kind are those injected.
void run_integrity_proof(LinkBench& bench, const LinkRun& run, int count,
                         const std::function<void(const Record&)>& sink);

}  // namespace amdahl

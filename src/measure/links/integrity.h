// Are the bytes that arrive the bytes that were sent? Every ordered pair of devices, every way between them, every
// pattern, sizes and addresses that are not multiples of anything, alone and while other copies run.
#pragma once

#include <functional>

#include "measure/links/tests.h"

namespace amdahl {

/// One Record of kind "integrity" per ordered pair and way: axes source, destination, way ("engine read", "engine
/// write", "kernel read", "kernel write", "host staged"), traffic; series transfers, bytes, and bad_bytes, first_offset
/// when any differ, summed over patterns and shapes. Status failed names the first fault: its pattern, offset, kind.
void run_integrity(LinkBench& bench, const LinkRun& run, const std::function<void(const Record&)>& sink,
                   Observer& observer);

/// Proof that the verification sees: `count` copies of which each is then damaged at one random place (a bit flipped, a
/// run of bytes zeroed, or the old content put back). One Record of kind "integrity-proof": series injected and found,
/// where found means that the number of bad bytes, the first offset and the kind are the injected ones.
void run_integrity_proof(LinkBench& bench, const LinkRun& run, int count,
                         const std::function<void(const Record&)>& sink);

}  // namespace amdahl

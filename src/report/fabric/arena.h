// Compares transports, from their records only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Smaller relative differences between transports are within the noise of one sweep.
inline constexpr double kSweepNoise = 0.03;

/// One table per sweep, size and placement: the time of every transport, the fastest marked, and the loss of the
/// default; then the number of wins per transport, and which transports gave no result and why. Transports between GPUs
/// and transports in host memory are compared separately, each against the default of its kind ("nccl", "threads").
std::string arena_text(const std::vector<Record>& records);

/// Shell lines with the `settings` (variables by transport, for transports selected by environment variables only) of
/// the transport that is faster than the default at most sizes, or a comment that there is none. A transport counts as
/// faster from kSweepNoise on.
std::string arena_environment(const std::vector<Record>& records,
                              const std::map<std::string, std::map<std::string, std::string>>& settings);

}  // namespace amdahl

// The settings of the fastest transport, from records of an arena.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Smaller relative differences between transports are within the noise of one sweep.
inline constexpr double kSweepNoise = 0.03;

/// Shell lines with the `settings` (variables by transport, for transports selected by environment variables only) of
/// the transport that is faster than the default at most sizes, or a comment that there is none. A transport counts as
/// faster from kSweepNoise on.
std::string arena_environment(const std::vector<Record>& records,
                              const std::map<std::string, std::map<std::string, std::string>>& settings);

}  // namespace amdahl

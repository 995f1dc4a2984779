// Transports set against each other, from their records alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// A table for each sweep, size and placement: every transport's time, the fastest marked, and what the default loses
/// against it; then how often each was the fastest, and which gave nothing and why. Transports between GPUs and those
/// in host memory are judged apart, by the default of their kind ("nccl", "threads").
std::string arena_text(const std::vector<Record>& records);

/// Lines for a shell: `settings` (variables by transport, of those that an environment alone selects) of the transport
/// that is better than the default at most sizes, or a comment that none is. A transport counts as better from 3 % on:
/// less is noise of one sweep.
std::string arena_environment(const std::vector<Record>& records,
                              const std::map<std::string, std::map<std::string, std::string>>& settings);

}  // namespace amdahl

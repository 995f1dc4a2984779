// The first words of a rank with rank 0: finds the port at which its job's rank 0 serves.
#pragma once

#include <functional>

#include "comm/wire.h"
#include "comm/world.h"

namespace amdahl {

struct Greeting {
  wire::Socket socket;
  wire::FrameReader reader;  // may hold frames that followed the answer
};

/// Says hello at the ports `first` to `last` until rank 0 of this job answers. Another job's rank 0 refuses it, and the
/// search goes on at the other ports. Throws what rank 0 answers: the job's first failure, or Error{launcher_mismatch}.
/// Error{rank_died} when rank 0 ended on this host, Error{peer_unreachable} at the deadline or when the only port
/// belongs to another program. `check` runs before each attempt and may throw to end them.
Greeting greet_rank_zero(const LaunchContext& launch, int first, int last, Deadline deadline,
                         const std::function<void()>& check = {});

/// What all frames of a job carry.
uint64_t token_of(const LaunchContext& launch);

}  // namespace amdahl

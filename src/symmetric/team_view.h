// What the ranks of a team share in symmetric memory, and how a rank sees it: plain data for kernels and CPU code
// alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace amdahl {

/// Most ranks of a team.
inline constexpr int kMaxTeamRanks = 16;
/// Barriers that one round can have.
inline constexpr int kBarriersPerRound = 2;

/// A flag in symmetric memory, zero at first: stored with release, loaded with acquire, at the scope of the system.
/// Values grow, and a wait ends once the value is there or beyond it.
struct Signal {
  uint64_t value;
};

/// At the front of each rank's symmetric memory, zero at first. A round is one run of a collective kernel, or one
/// barrier of the host's interface; all ranks run the same rounds in the same order. The counts lie in memory, so that
/// replays of a CUDA graph go on counting.
struct alignas(128) TeamFlags {
  Signal arrived[kBarriersPerRound][kMaxTeamRanks];  // by writing rank: the last round whose barrier it has reached
  uint64_t epoch;                                    // rounds of this rank that have ended
  unsigned finished_blocks;                          // of the running kernel
  unsigned broken;                                   // a wait was given up: later rounds do nothing
};

/// In host memory that this rank's kernels reach.
struct WaitReport {
  unsigned give_up;       // set by the host: waits end
  unsigned missing_rank;  // set by a wait that is over: rank in the team + 1
};

/// One rank's access to the team's memory. `base` are addresses that this rank's code can use; the same offset from
/// each of them is the same symmetric object.
struct TeamView {
  char* base[kMaxTeamRanks];
  int rank, size;
  WaitReport* report;
  uint64_t timeout_ns;  // of one wait
};

}  // namespace amdahl

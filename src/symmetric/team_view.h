// Control data of a team in symmetric memory, and a rank's view of the team: plain data for kernels and CPU code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace amdahl {

/// Maximum number of ranks of a team.
inline constexpr int kMaxTeamRanks = 16;
/// Maximum number of barriers in one round.
inline constexpr int kBarriersPerRound = 2;

/// A flag in symmetric memory, initially zero, stored with release and loaded with acquire order at system scope. Its
/// value only increases; a wait ends once it is at least the expected value.
struct Signal {
  uint64_t value;
};

/// At the start of each rank's symmetric memory, initially zero. A round is one execution of a collective kernel, or
/// one barrier of the host interface; all ranks execute the same rounds in the same order. The counters are in device
/// memory, so that replays of a CUDA graph continue to count.
struct alignas(128) TeamFlags {
  Signal arrived[kBarriersPerRound][kMaxTeamRanks];  // by writing rank: last round in which it arrived
  uint64_t epoch;                                    // number of this rank's completed rounds
  unsigned finished_blocks;                          // of the running kernel
  unsigned broken;                                   // 1 after an abandoned wait: later rounds do nothing
};

/// In host memory that this rank's kernels can access.
struct WaitReport {
  unsigned give_up;       // set by the host: waits end
  unsigned missing_rank;  // set by a wait that timed out: rank in the team + 1
};

/// One rank's view of the team's memory. `base`: addresses valid in this rank's code; equal offsets from them refer to
/// the same symmetric object.
struct TeamView {
  char* base[kMaxTeamRanks];
  int rank, size;
  WaitReport* report;
  uint64_t timeout_ns;  // of one wait
};

}  // namespace amdahl

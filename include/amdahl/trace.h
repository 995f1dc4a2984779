// StepTrace: what every stream of every rank did in a few training steps, on one clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// What a traced `amdahl study` writes, and of which steps of which cell.
struct TraceConfig {
  bool wanted = false;
  std::string file;          // Chrome Trace, .json or .json.gz; empty: trace.json.gz in the run folder
  int64_t first = 0;         // steps [first, end) of a run, counted from its fresh weights on
  int64_t end = 0;           // 0: steps 10 to 12, or the last three of a shorter run
  int64_t global_batch = 0;  // of the traced cell; 0: that of the last cell with these devices
  int devices = 0;           // of the traced cell; 0: those of the last cell with this batch
};

enum class TraceKind { step, compute, optimizer, input, communication, waiting, host };

/// One piece of work on one stream of one rank.
struct TraceEvent {
  TraceKind kind = TraceKind::compute;
  std::string name;    // "forward", "weight gradient 2", "bucket 0"
  std::string stream;  // "step", "compute", "weights", "comm", "host"
  int rank = 0;
  int64_t step = 0;
  double start_us = 0;     // since the beginning of the trace, on the clock of rank 0's host
  double duration_us = 0;  // not negative
  int64_t bytes = 0;       // payload of a bucket on this rank; 0 where none moves

  bool operator==(const TraceEvent&) const = default;
};

/// How the times of a rank came onto the common clock.
struct TracedRank {
  int rank = 0;
  std::string device;  // "CPU virtual device 0"
  std::string host;
  std::string clock;                // in words
  double clock_uncertainty_us = 0;  // its times may be shifted as a whole by as much, either way

  bool operator==(const TracedRank&) const = default;
};

struct StepTrace {
  std::string model, strategy, launch;
  int64_t global_batch = 0;
  int devices = 1;
  int64_t first_step = 0, end_step = 0;  // [first, end)
  std::string how;                       // how it was taken, and what that does to the times
  std::vector<TracedRank> ranks;         // by rank
  std::vector<TraceEvent> events;        // by rank, then start
  Provenance provenance;
};

}  // namespace amdahl

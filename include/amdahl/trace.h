// StepTrace: the work of every stream of every rank in a few training steps, on one clock. Plain data.
//
// Example: trace steps 20 to 22 of the last cell of a study.
//   amdahl::StudyConfig config;  // of amdahl/amdahl.h
//   config.trace = {.wanted = true, .file = "steps.json.gz", .first = 20, .end = 23};
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Which steps of which cell of a study are traced, and the file to write.
struct TraceConfig {
  bool wanted = false;
  std::string file;          // Chrome Trace, .json or .json.gz; empty: trace.json.gz in the run folder
  int64_t first = 0;         // steps [first, end) of a run, warm-up included, from 0
  int64_t end = 0;           // 0: steps 10 to 12, or the last three of a shorter run
  int64_t global_batch = 0;  // of the traced cell; 0: that of the last cell with `devices`
  int devices = 0;           // of the traced cell; 0: that of the last cell with `global_batch`
};

enum class TraceKind { step, compute, optimizer, input, communication, waiting, host };

/// One interval of work on one stream of one rank.
struct TraceEvent {
  TraceKind kind = TraceKind::compute;
  std::string name;    // "forward", "weight gradient 2", "bucket 0"
  std::string stream;  // "step", "compute", "weights", "comm", "host"
  int rank = 0;
  int64_t step = 0;
  double start_us = 0;     // since the start of the trace, on the clock of rank 0's host
  double duration_us = 0;  // not negative
  int64_t bytes = 0;       // payload of a bucket on this rank; 0 without a transfer

  bool operator==(const TraceEvent&) const = default;
};

/// How the times of a rank were converted to the common clock.
struct TracedRank {
  int rank = 0;
  std::string device;  // "CPU virtual device 0"
  std::string host;
  std::string clock;                // description of the clock
  double clock_uncertainty_us = 0;  // all its times may be shifted by up to this, earlier or later

  bool operator==(const TracedRank&) const = default;
};

struct StepTrace {
  std::string model, strategy, launch;
  int64_t global_batch = 0;
  int devices = 1;
  int64_t first_step = 0, end_step = 0;  // [first, end)
  std::string how;                       // tracing method and its effect on the times
  std::vector<TracedRank> ranks;         // in rank order
  std::vector<TraceEvent> events;        // ordered by rank, then start
  Provenance provenance;
};

}  // namespace amdahl

// Record: one finished measurement with its axes, raw samples, status and provenance. StepTrace: the work of every
// stream of every rank in a few training steps, on one clock. Plain data.
//
// Example: the first step time of every run of a study.
//   for (const amdahl::Record& record : records)
//     if (const std::optional<double> us = record.value("step_time")) std::printf("%.1f us\n", *us);
//
// Example: trace steps 20 to 22 of the last cell of a study.
//   amdahl::StudyConfig config;  // of amdahl/study.h
//   config.trace = {.wanted = true, .file = "steps.json.gz", .first = 20, .end = 23};
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Schema version of the JSON documents (records.jsonl, summary.json). Added fields keep it; a changed meaning
/// increments it.
inline constexpr int kSchemaVersion = 1;

/// Where a number comes from. Tables that mix origins mark them.
enum class Origin { measured, emulated, modelled };

using AxisValue = std::variant<int64_t, double, bool, std::string>;

/// Axis of records measured by several processes of one run: the number of the process, from 0.
inline constexpr const char* kProcessAxis = "process";

/// Raw samples of one quantity. `unit`: "us", "bytes", "samples/s", "percent", "1" (dimensionless), ...
struct Series {
  std::string name;
  std::string unit;
  std::vector<double> samples;
};

/// How and where a number was measured. `facts` holds versions, devices, clocks and NCCL_*/CUDA_* variables by name.
struct Provenance {
  std::string tool_version;
  std::string commit;
  std::string command_line;
  std::string start_time;  // UTC, ISO 8601
  std::string host;
  std::string device_kind;  // "cpu-virtual" or "cuda"
  uint64_t seed = 0;
  std::map<std::string, std::string> facts;

  bool operator==(const Provenance&) const = default;
};

/// The smallest unit that is completed and stored at once: a run of a study cell, a training epoch, a transfer size.
struct Record {
  std::string kind;  // "study-run", "train-epoch"
  std::map<std::string, AxisValue> axes;
  Status status;
  Origin origin = Origin::measured;
  std::vector<Series> series;
  Provenance provenance;
  std::string source{};  // "FILE:LINE" that it was read from, for error messages; empty otherwise, never stored

  /// First sample of a series; absent when the series is missing or empty.
  std::optional<double> value(const std::string& series_name) const {
    for (const Series& s : series)
      if (s.name == series_name && !s.samples.empty()) return s.samples.front();
    return std::nullopt;
  }
};

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

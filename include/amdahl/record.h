// Record: one finished measurement with its axes, raw samples, status and provenance.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Version of the JSON documents (records.jsonl, summary.json). Additions keep it; a change of meaning raises it.
inline constexpr int kSchemaVersion = 1;

/// Where a number comes from. The three never share a column unmarked.
enum class Origin { measured, emulated, modelled };

using AxisValue = std::variant<int64_t, double, bool, std::string>;

/// Axis of records that fresh processes of one run measured: the number of the process, from 0.
inline constexpr const char* kProcessAxis = "process";

/// Raw samples of one quantity. `unit` is written out: "us", "bytes", "samples/s", "percent", "1".
struct Series {
  std::string name;
  std::string unit;
  std::vector<double> samples;
};

/// Everything needed to judge a number later. `facts` holds versions, devices, clocks and NCCL_*/CUDA_* variables by
/// name.
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

/// One run of one study cell, one training epoch, one transfer size: whatever completes at once is one Record.
struct Record {
  std::string kind;  // "study-run", "train-epoch"
  std::map<std::string, AxisValue> axes;
  Status status;
  Origin origin = Origin::measured;
  std::vector<Series> series;
  Provenance provenance;
  std::string source{};  // "FILE:LINE" it was read from, for errors; empty when just measured, and never stored

  /// First sample of a series, or nothing when the series is absent or empty.
  std::optional<double> value(const std::string& series_name) const {
    for (const Series& s : series)
      if (s.name == series_name && !s.samples.empty()) return s.samples.front();
    return std::nullopt;
  }
};

}  // namespace amdahl

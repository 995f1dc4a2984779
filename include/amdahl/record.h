// Record: one finished measurement with its axes, raw samples, status and provenance. Plain data.
//
// Example: the first step time of every run of a study.
//   for (const amdahl::Record& record : records)
//     if (const std::optional<double> us = record.value("step_time")) std::printf("%.1f us\n", *us);
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

}  // namespace amdahl
